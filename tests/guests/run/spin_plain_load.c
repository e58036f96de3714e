// A loop that waits for a plain volatile variable, with no call, no pause and no atomic instruction, must yield.
#include "guest.h"

static volatile int go, seen;

static void *body(void *argument) {
    while (!go)
        ;
    seen = 1;
    return argument;
}

int main(void) {
    pthread_t thread = start(body, NULL);
    sched_yield();
    go = 1;
    while (!seen)
        ;
    join(thread);
    puts("both loops ended");
}
