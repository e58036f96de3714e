// waitpid(0) and waitpid(-group) take children of one process group only.
#include "processes.h"

int main(void) {
    turn go = make_turn();
    pid_t mine = CHILD(await(&go); _exit(1));
    pid_t first = CHILD(await(&go); _exit(2));
    CHECK(setpgid(first, first) == 0);
    pid_t second = CHILD(await(&go); _exit(3));
    CHECK(setpgid(second, first) == 0);
    CHECK(getpgid(second) == first && getpgid(mine) == getpgrp());
    for (int i = 0; i < 3; i++)
        give(&go);
    int status, sum = 0;
    for (int i = 0; i < 2; i++) {
        pid_t found = waitpid(-first, &status, 0);
        CHECK(found == first || found == second);
        sum += WEXITSTATUS(status);
    }
    printf("of the group: %d\n", sum);
    FAILS(waitpid(-first, &status, 0), ECHILD);
    CHECK(waitpid(0, &status, 0) == mine);
    printf("of mine: %d\n", WEXITSTATUS(status));
    FAILS(waitpid(0, &status, 0), ECHILD);
    FAILS(waitpid(-12345, &status, WNOHANG), ECHILD);
    siginfo_t info;
    pid_t third = CHILD(_exit(4));
    setpgid(third, third);
    CHECK(waitid(P_PGID, getpgrp() == third ? 0 : third, &info, WEXITED) == 0 || errno == ECHILD);
}
