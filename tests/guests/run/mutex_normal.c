// A normal mutex protects a counter that is read, yielded over, and written back.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int counter;

static void *body(void *argument) {
    for (int i = 0; i < 25; i++) {
        OK(pthread_mutex_lock(&lock));
        int seen = counter;
        sched_yield();
        counter = seen + 1;
        OK(pthread_mutex_unlock(&lock));
    }
    return argument;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    printf("counter %d\n", counter);
}
