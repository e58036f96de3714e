// Children are waited for in whatever order the parent likes.
#include "processes.h"

int main(void) {
    pid_t pids[4];
    for (int i = 0; i < 4; i++)
        pids[i] = CHILD(_exit(10 + i));
    for (int i = 3; i >= 0; i--)
        printf("child %d: %d\n", i, exit_of(pids[i]));
    for (int i = 0; i < 4; i++)
        FAILS(waitpid(pids[i], NULL, 0), ECHILD);
    // Somebody else's child, and oneself, are no children.
    FAILS(waitpid(getpid(), NULL, 0), ECHILD);
    FAILS(waitpid(1, NULL, 0), ECHILD);
    turn told = make_turn(), done = make_turn();
    pid_t grandchild;
    pid_t pid = fork_checked();
    if (pid == 0) {
        grandchild = CHILD(await(&done));
        CHECK(write(told.ends[1], &grandchild, sizeof grandchild) == sizeof grandchild);
        FINE(grandchild);
        _exit(0);
    }
    CHECK(read(told.ends[0], &grandchild, sizeof grandchild) == sizeof grandchild);
    FAILS(waitpid(grandchild, NULL, WNOHANG), ECHILD);
    give(&done);
    FINE(pid);
    puts("a grandchild is no child");
}
