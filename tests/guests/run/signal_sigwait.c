// sigwait, sigwaitinfo and sigtimedwait take blocked signals without a handler, also from another thread.
#include "guest.h"

static pthread_t waiter;

static void *sender(void *argument) {
    OK(pthread_kill(waiter, SIGUSR1));
    CHECK(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 5}) == 0);
    return argument;
}

int main(void) {
    sigset_t set, second;
    int number;
    siginfo_t info;
    struct timespec limit = {0, 2000000};
    waiter = pthread_self();
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    sigemptyset(&second), sigaddset(&second, SIGUSR2);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    OK(pthread_sigmask(SIG_BLOCK, &second, NULL));
    FAILS(sigtimedwait(&set, &info, &limit), EAGAIN);
    pthread_t thread = start(sender, NULL);
    OK(sigwait(&set, &number));
    printf("SIGUSR1: %d\n", number == SIGUSR1);
    CHECK(sigwaitinfo(&second, &info) == SIGUSR2);
    printf("SIGUSR2 with %d\n", info.si_value.sival_int);
    join(thread);
    limit.tv_nsec = 0;
    FAILS(sigtimedwait(&set, &info, &limit), EAGAIN);
}
