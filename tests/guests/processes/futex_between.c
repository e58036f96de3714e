// A futex in shared memory, at another address in each process.
#include "processes.h"
#include <linux/futex.h>

static long futex(atomic_int *word, int operation, int value) {
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

int main(void) {
    int fd = memfd_create("futex", 0);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        char *both = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(both != MAP_FAILED);
        atomic_int *here = (atomic_int *)(both + 4096);
        while (*here == 0)
            CHECK(futex(here, FUTEX_WAIT, 0) == 0 || errno == EAGAIN);
        printf("woken, %d\n", (int)*here);
        exit(0);
    }
    atomic_int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    CHECK(word != MAP_FAILED);
    sleep_ms(20);
    *word = 5;
    CHECK(futex(word, FUTEX_WAKE, 1) == 1);
    FINE(pid);
    CHECK(futex(word, FUTEX_WAKE, 1) == 0);
}
