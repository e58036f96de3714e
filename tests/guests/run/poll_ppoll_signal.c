// ppoll and pselect let a blocked signal in only while they wait, and are interrupted by it.
#include "guest.h"
#include <poll.h>
#include <sys/select.h>

static volatile sig_atomic_t caught;

static void handler(int number) { caught += number == SIGUSR1; }

int main(void) {
    sigset_t block, open_set;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&block), sigaddset(&block, SIGUSR1), sigemptyset(&open_set);
    CHECK(sigprocmask(SIG_BLOCK, &block, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && caught == 0);
    FAILS(ppoll(NULL, 0, NULL, &open_set), EINTR);
    printf("caught %d\n", caught);
    CHECK(raise(SIGUSR1) == 0 && caught == 1);
    FAILS(pselect(0, NULL, NULL, NULL, NULL, &open_set), EINTR);
    printf("caught %d\n", caught);
    sigset_t now;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
}
