// SA_SIGINFO handlers get sender, code and the queued value; real-time signals queue in order.
#include "guest.h"

static volatile sig_atomic_t values[4], seen;

static void handler(int number, siginfo_t *info, void *context) {
    CHECK(number == info->si_signo && info->si_code == SI_QUEUE && info->si_pid == getpid() && context);
    values[seen++] = info->si_value.sival_int;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < 2; i++) {
        CHECK(sigaction(SIGRTMIN + i, &action, NULL) == 0);
        sigaddset(&set, SIGRTMIN + i);
    }
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 10 + i}) == 0);
    CHECK(seen == 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(seen == 3);
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 99}) == 0 && seen == 4);
    printf("%d %d %d %d\n", values[0], values[1], values[2], values[3]);
}
