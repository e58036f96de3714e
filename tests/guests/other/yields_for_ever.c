// One thread yields without end, the other waits for it.
#include "guest.h"

static void *yield(void *argument) {
    for (;;)
        sched_yield();
    return argument;
}

int main(void) { join(start(yield, NULL)); }
