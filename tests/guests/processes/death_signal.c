// PR_SET_PDEATHSIG: a signal when the parent ends; not inherited by a child of its own.
#include "processes.h"

int main(void) {
    turn set = make_turn(), told = make_turn();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        pid_t below = fork_checked();
        if (below == 0) {
            int number = -1;
            sigset_t wanted;
            siginfo_t info;
            sigemptyset(&wanted);
            sigaddset(&wanted, SIGUSR1);
            CHECK(sigprocmask(SIG_BLOCK, &wanted, NULL) == 0);
            CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0);
            CHECK(prctl(PR_GET_PDEATHSIG, &number) == 0 && number == SIGUSR1);
            FINE(CHILD(CHECK(prctl(PR_GET_PDEATHSIG, &number) == 0 && number == 0)));
            give(&set);
            CHECK(sigwaitinfo(&wanted, &info) == SIGUSR1);
            puts("told of the parent's end");
            fflush(stdout);
            give(&told);
            _exit(0);
        }
        await(&set);
        _exit(0);
    }
    FINE(pid);
    await(&told);
    CHECK(wait(NULL) > 0);
    FAILS(prctl(PR_SET_PDEATHSIG, 65), EINVAL);
}
