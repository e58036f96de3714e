// Anonymous shared memory is one for parent, child and grandchild; private memory is not.
#include "processes.h"

int main(void) {
    atomic_int *cells = shared_memory(8192);
    int *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    cells[0] = 1;
    *own = 1;
    FINE(CHILD(CHECK(cells[0] == 1); cells[0] = 2; cells[1024] = 3; *own = 2;
               FINE(CHILD(CHECK(cells[0] == 2 && *own == 2); cells[1] = 4))));
    printf("%d %d %d, own %d\n", cells[0], cells[1], cells[1024], *own);
    // Unmapped here, it is still there for others.
    turn go = make_turn();
    pid_t pid = CHILD(await(&go); cells[2] = 5; CHECK(cells[1] == 4));
    CHECK(munmap(cells, 4096) == 0);
    give(&go);
    FINE(pid);
    printf("%d\n", cells[1024]);
    // Atomic additions of several processes.
    atomic_int *count = shared_memory(4096);
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        pids[i] = CHILD(for (int n = 0; n < 20; n++) atomic_fetch_add(count, 1));
    for (int i = 0; i < 3; i++)
        FINE(pids[i]);
    printf("%d\n", *count);
}
