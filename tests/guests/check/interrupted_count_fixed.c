// The same, with the signal kept away while the thread counts.
#include "guest.h"
#include <assert.h>
#include <signal.h>

static volatile int credits = 10, seen;

static void on_signal(int number) {
    (void)number;
    credits = credits - 1;
    seen = 1;
}

static void *interrupt(void *main_thread) {
    pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    return NULL;
}

int main(void) {
    pthread_t self = pthread_self(), thread;
    sigset_t blocked;
    signal(SIGUSR1, on_signal);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    pthread_create(&thread, NULL, interrupt, &self);
    int now = credits;
    credits = now + 5;
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    pthread_join(thread, NULL);
    assert(!seen || credits == 14);
    return 0;
}
