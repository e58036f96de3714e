// The parent of a vforked child goes on when the child has ended, however it ends; its descriptors are its own.
#include "processes.h"

int main(void) {
    int ends[2];
    volatile int order = 0;
    CHECK(pipe(ends) == 0);
    pid_t pid = vfork();
    if (pid == 0) {
        close(ends[0]);
        close(ends[1]);
        order = 1;
        _exit(7);
    }
    CHECK(order == 1);
    CHECK(write(ends[1], "x", 1) == 1);
    printf("exited %d\n", exit_of(pid));
    pid = vfork();
    if (pid == 0) {
        order = 2;
        kill(getpid(), SIGKILL);
    }
    CHECK(order == 2);
    int status = reap(pid);
    printf("killed %d\n", WTERMSIG(status));
}
