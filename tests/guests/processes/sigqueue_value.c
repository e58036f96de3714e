// sigqueue carries a value; real-time signals queue in order, each with its own.
#include "processes.h"

int main(void) {
    sigset_t set;
    turn go = make_turn(), ready = make_turn();
    pid_t parent = getpid();
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        siginfo_t info;
        give(&ready);
        await(&go);
        for (int i = 0; i < 4; i++) {
            CHECK(sigwaitinfo(&set, &info) > 0);
            CHECK(info.si_code == SI_QUEUE && info.si_pid == parent && info.si_uid == getuid());
            printf("%s %d\n", info.si_signo == SIGUSR1 ? "USR1" : "RT", info.si_value.sival_int);
        }
        exit(0);
    }
    await(&ready);
    for (int i = 1; i <= 3; i++)
        CHECK(sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i}) == 0);
    // Only the first of these is kept.
    CHECK(sigqueue(pid, SIGUSR1, (union sigval){.sival_int = 10}) == 0);
    CHECK(sigqueue(pid, SIGUSR1, (union sigval){.sival_int = 11}) == 0);
    give(&go);
    FINE(pid);
    FAILS(sigqueue(pid, SIGUSR1, (union sigval){.sival_int = 1}), ESRCH);
}
