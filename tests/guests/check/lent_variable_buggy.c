// A counter on the stack of main, whose address another thread has: each increment is one instruction, which loads and stores.
// build: -O2
// expect: assert
// min-preemptions: 2
#include "guest.h"
#include <assert.h>

static void *count(void *argument) {
    ++*(int *)argument;
    return NULL;
}

int main(void) {
    int counter = 0;
    pthread_t thread = start(count, &counter);
    counter++;
    join(thread);
    assert(counter == 2);
}
