// A child that has ended can be named until it is waited for: signals go nowhere, without an error.
#include "processes.h"

int main(void) {
    siginfo_t info;
    pid_t pid = CHILD(_exit(3));
    CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK(kill(pid, 0) == 0 && kill(pid, SIGKILL) == 0);
    CHECK(getpgid(pid) == getpgrp() && getsid(pid) == getsid(0));
    printf("still %d\n", exit_of(pid));
    FAILS(kill(pid, 0), ESRCH);
    FAILS(getpgid(pid), ESRCH);
    FAILS(getsid(pid), ESRCH);
    FAILS(kill(-pid, SIGTERM), ESRCH);
}
