// Blocked signals are pending, standard ones merge, and are delivered when unblocked; each thread has its own mask.
#include "guest.h"

static volatile sig_atomic_t count;

static void handler(int number) { count += number == SIGUSR1; }

static void *body(void *argument) {
    sigset_t mask;
    OK(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    CHECK(sigismember(&mask, SIGUSR1));
    sigemptyset(&mask);
    OK(pthread_sigmask(SIG_SETMASK, &mask, NULL));
    return argument;
}

int main(void) {
    sigset_t set, pending, old;
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGUSR1));
    join(start(body, NULL));
    CHECK(raise(SIGUSR1) == 0 && raise(SIGUSR1) == 0 && count == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) && !sigismember(&pending, SIGUSR2));
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    printf("delivered %d\n", count);
    CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR1));
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0 && signal(SIGUSR1, SIG_IGN) == handler);
    CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR1));
    puts("ignoring drops what is pending");
}
