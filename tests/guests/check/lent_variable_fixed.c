// A counter on the stack of main, which another thread has while main waits for it.
// build: -O2
// options: --races
#include "guest.h"
#include <assert.h>

static void *count(void *argument) {
    ++*(int *)argument;
    return NULL;
}

int main(void) {
    int counter = 0;
    counter++;
    pthread_t thread = start(count, &counter);
    join(thread);
    counter++;
    assert(counter == 3);
}
