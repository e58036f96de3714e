// A thread is made before what it uses is set up: it may run at once.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static int value = 3, *config;

static void *worker(void *argument) {
    assert(config != NULL);
    return argument;
}

int main(void) {
    pthread_t thread = start(worker, NULL);
    config = &value;
    join(thread);
}
