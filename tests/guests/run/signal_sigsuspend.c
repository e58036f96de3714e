// sigsuspend atomically opens the mask and waits; the old mask is back afterwards.
#include "guest.h"

static volatile sig_atomic_t handled;
static pthread_t main_thread;

static void handler(int number) { handled = number; }

static void *sender(void *argument) {
    OK(pthread_kill(main_thread, SIGUSR1));
    return argument;
}

int main(void) {
    sigset_t block, empty, now;
    main_thread = pthread_self();
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    sigemptyset(&empty), sigemptyset(&block), sigaddset(&block, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &block, NULL));
    pthread_t thread = start(sender, NULL);
    FAILS(sigsuspend(&empty), EINTR);
    printf("handled %d\n", handled == SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, NULL, &now));
    CHECK(sigismember(&now, SIGUSR1));
    join(thread);
}
