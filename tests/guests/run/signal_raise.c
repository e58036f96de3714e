// sigaction and raise: the handler runs before raise returns; SA_RESETHAND, old action, ignore, EINVAL for SIGKILL.
#include "guest.h"

static volatile sig_atomic_t count;

static void handler(int number) {
    count++;
    (void)number;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler}, old;
    CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(raise(SIGUSR1) == 0 && count == 1);
    CHECK(kill(getpid(), SIGUSR1) == 0 && count == 2);
    action.sa_flags = SA_RESETHAND;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && count == 3);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR2, SIG_IGN) == SIG_DFL && raise(SIGUSR2) == 0);
    CHECK(raise(SIGCHLD) == 0 && raise(SIGWINCH) == 0);
    FAILS(sigaction(SIGKILL, &action, NULL), EINVAL);
    FAILS(kill(getpid(), 99), EINVAL);
    CHECK(kill(getpid(), 0) == 0);
    printf("handled %d times\n", count);
}
