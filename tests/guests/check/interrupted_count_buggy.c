// A handler counts what the thread that it interrupts is just counting, too: no other thread touches the count.
// expect: assert
// min-preemptions: 1
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
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, NULL, interrupt, &self);
    int now = credits;
    credits = now + 5;
    pthread_join(thread, NULL);
    assert(!seen || credits == 14);
    return 0;
}
