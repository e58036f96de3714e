// What a thread uses is set up before it is made.
#include "guest.h"
#include <assert.h>

static int value = 3, *config;

static void *worker(void *argument) {
    assert(config != NULL);
    return argument;
}

int main(void) {
    config = &value;
    pthread_t thread = start(worker, NULL);
    join(thread);
}
