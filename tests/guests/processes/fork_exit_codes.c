// Exit statuses as the parent sees them: eight bits, however the child ends.
#include "processes.h"

static void *leaves(void *argument) {
    exit((int)(intptr_t)argument);
}

int main(void) {
    const int codes[] = {0, 1, 42, 127, 255, 256, 257, -1};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        int status = reap(CHILD(_exit(codes[i])));
        CHECK(WIFEXITED(status) && !WIFSIGNALED(status) && !WIFSTOPPED(status));
        printf("_exit(%d): %d, %#x\n", codes[i], WEXITSTATUS(status), status);
    }
    printf("exit(9): %d\n", exit_of(CHILD(exit(9))));
    printf("exit(8) in a thread: %d\n", exit_of(CHILD(join(start(leaves, (void *)8)))));
    printf("exit_group: %d\n", exit_of(CHILD(syscall(SYS_exit_group, 77))));
    // The only thread leaves: the process ends with its status.
    printf("exit: %d\n", exit_of(CHILD(syscall(SYS_exit, 78))));
}
