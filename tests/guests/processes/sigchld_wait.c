// SIGCHLD that is blocked waits, and sigwaitinfo takes it with all it tells.
#include "processes.h"

int main(void) {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct timespec none = {0, 0};
    FAILS(sigtimedwait(&set, &info, &none), EAGAIN);
    pid_t pid = CHILD(_exit(77));
    CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
    CHECK(info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 77);
    CHECK(exit_of(pid) == 77);
    pid = CHILD(for (;;) pause());
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
    CHECK(info.si_pid == pid && info.si_code == CLD_KILLED && info.si_status == SIGKILL);
    CHECK(WTERMSIG(reap(pid)) == SIGKILL);
    FAILS(sigtimedwait(&set, &info, &none), EAGAIN);
    puts("told twice");
}
