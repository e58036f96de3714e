// POSIX shared memory by name, opened by each process for itself.
// build: -lrt
#include "processes.h"

// Several of these may run at a time.
static char name[64];

static int *map(int flags) {
    int fd = shm_open(name, O_RDWR | flags, 0600);
    CHECK(fd >= 0);
    if (flags & O_CREAT)
        CHECK(ftruncate(fd, 4096) == 0);
    int *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED && close(fd) == 0);
    return memory;
}

int main(void) {
    snprintf(name, sizeof name, "/tracefork-guest-shared-%d", getpid());
    shm_unlink(name);
    FAILS(shm_open(name, O_RDWR, 0), ENOENT);
    int *cells = map(O_CREAT | O_EXCL);
    cells[0] = 11;
    FINE(CHILD(CHECK(munmap(cells, 4096) == 0); int *again = map(0); CHECK(again[0] == 11); again[1] = 22));
    FINE(CHILD(CHECK(cells[1] == 22); cells[2] = 33));
    CHECK(shm_unlink(name) == 0);
    FINE(CHILD(FAILS(shm_open(name, O_RDWR, 0), ENOENT)));
    printf("%d %d %d\n", cells[0], cells[1], cells[2]);
}
