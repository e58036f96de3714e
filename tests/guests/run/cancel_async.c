// An asynchronous cancellation ends a thread that computes without ever making a call.
#include "guest.h"

static volatile int running;

static void *body(void *argument) {
    OK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
    running = 1;
    for (;;)
        ;
    return argument;
}

int main(void) {
    pthread_t thread = start(body, NULL);
    while (!running)
        sched_yield();
    OK(pthread_cancel(thread));
    CHECK(join(thread) == PTHREAD_CANCELED);
    puts("cancelled while computing");
}
