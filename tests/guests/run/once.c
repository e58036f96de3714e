// pthread_once: the initialiser runs once and everyone waits until it is finished.
#include "guest.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static volatile int ready;

static void initialise(void) {
    puts("initialised");
    sleep_ms(2);
    ready = 1;
}

static void *body(void *argument) {
    OK(pthread_once(&once, initialise));
    CHECK(ready == 1);
    return argument;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    puts("seen by all");
}
