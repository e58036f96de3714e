// The same part of a file mapped twice in one process: what is stored through one mapping is at once in the other, whoever reads it.
#include "processes.h"
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/uio.h>

int main(void) {
    int fd = memfd_create("file", 0);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    char *both = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *first = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const char *second = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    CHECK(both != MAP_FAILED && first != MAP_FAILED && second != MAP_FAILED);
    for (int round = 0; round < 3; round++) {
        both[0] = (char)('a' + round);
        first[1] = (char)('k' + round);
        both[4096] = (char)('x' + round);
        printf("%c %c %c %c\n", first[0], both[1], second[0], both[0]);
    }
    // By calls, too.
    first[10] = 'r';
    char text[4];
    CHECK(pread(fd, text, 1, 10) == 1 && write(1, both + 10, 1) == 1);
    printf(" %c\n", text[0]);
    struct iovec pieces[2] = {{"y", 1}, {"z", 1}};
    CHECK(pwritev(fd, pieces, 2, 20) == 2);
    printf("%c%c %c%c\n", both[20], both[21], first[20], first[21]);
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "q", 1) == 1 && read(ends[0], first + 30, 1) == 1);
    both[31] = 'p';
    printf("%c %c\n", both[30], first[31]);
    // A child has both, and maps it once more.
    FINE(CHILD(first[40] = 's'; char *third = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
               CHECK(third[40] == 's' && both[40] == 's'); third[41] = 't'; CHECK(first[41] == 't')));
    printf("%c%c%c%c\n", both[40], first[41], first[40], both[41]);
    CHECK(munmap(both, 8192) == 0);
    first[0]++;
    printf("%c %c\n", first[0], second[0]);
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    char *one = shmat(id, NULL, 0), *two = shmat(id, NULL, 0);
    CHECK(one != (char *)-1 && two != (char *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    one[0] = 'm';
    two[0]++;
    printf("%c\n", one[0]);
}
