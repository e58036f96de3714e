// clone itself: another signal at the end, or none; __WALL and __WCLONE; the number stored in parent and child.
#include "processes.h"

static pid_t raw(unsigned long flags, pid_t *parent_tid, pid_t *child_tid) {
    CHECK(fflush(NULL) == 0);
    return (pid_t)syscall(SYS_clone, flags, NULL, parent_tid, child_tid, 0);
}

int main(void) {
    int status;
    pid_t stored = 0, own = 0;
    pid_t pid = raw(SIGCHLD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID, &stored, &own);
    if (pid == 0) {
        CHECK(own == (pid_t)syscall(SYS_getpid));
        _exit(5);
    }
    CHECK(stored == pid && own == 0);
    printf("%d\n", exit_of(pid));
    // Without SIGCHLD it is a "clone" child.
    pid = raw(0, NULL, NULL);
    if (pid == 0)
        _exit(6);
    CHECK(waitpid(pid, &status, __WALL) == pid);
    printf("%d\n", WEXITSTATUS(status));
    signal(SIGUSR1, SIG_IGN);
    pid = raw(SIGUSR1, NULL, NULL);
    if (pid == 0)
        _exit(7);
    CHECK(waitpid(pid, &status, __WCLONE) == pid);
    printf("%d\n", WEXITSTATUS(status));
}
