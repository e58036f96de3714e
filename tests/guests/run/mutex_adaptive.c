// An adaptive mutex (spins in user space before it waits) under contention.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static int counter;

static void *body(void *argument) {
    for (int i = 0; i < 50; i++) {
        OK(pthread_mutex_lock(&lock));
        counter++;
        OK(pthread_mutex_unlock(&lock));
    }
    return argument;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("counter %d\n", counter);
}
