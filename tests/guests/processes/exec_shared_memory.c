// exec leaves shared memory behind: others keep what was stored.
#include "processes.h"

int main(int argc, char **argv) {
    if (argc > 1)
        return 0;
    atomic_int *cell = shared_memory(4096);
    pid_t pid = CHILD(*cell = 7; execl("/proc/self/exe", argv[0], "x", NULL));
    FINE(pid);
    printf("%d\n", *cell);
    pid = vfork();
    if (pid == 0) {
        *cell = 8;
        execl("/proc/self/exe", argv[0], "x", NULL);
        _exit(98);
    }
    FINE(pid);
    printf("%d\n", *cell);
}
