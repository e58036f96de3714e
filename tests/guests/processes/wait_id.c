// waitid tells how a child ended, and WNOWAIT leaves it to be waited for again.
#include "processes.h"

static void tell(const siginfo_t *info, pid_t pid) {
    CHECK(info->si_signo == SIGCHLD && info->si_errno == 0 && info->si_pid == pid);
    CHECK(info->si_uid == getuid());
    const char *code = info->si_code == CLD_EXITED ? "exited" : info->si_code == CLD_KILLED ? "killed" : "?";
    printf("%s %d\n", code, info->si_status);
}

int main(void) {
    siginfo_t info;
    pid_t pid = CHILD(_exit(21));
    for (int i = 0; i < 3; i++) {
        CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0);
        tell(&info, pid);
    }
    CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0);
    tell(&info, pid);
    FAILS(waitid(P_PID, pid, &info, WEXITED), ECHILD);
    pid = CHILD(for (;;) pause());
    CHECK(kill(pid, SIGKILL) == 0 && waitid(P_PID, pid, &info, WEXITED) == 0);
    tell(&info, pid);
    pid = CHILD(_exit(300));
    CHECK(waitid(P_PGID, getpgrp(), &info, WEXITED) == 0);
    // Eight bits, here too.
    tell(&info, pid);
    pid = CHILD(_exit(4));
    CHECK(waitid(P_PID, pid, NULL, WEXITED) == 0);
    puts("without siginfo");
}
