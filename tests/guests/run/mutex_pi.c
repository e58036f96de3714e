// A priority-inheriting mutex (FUTEX_LOCK_PI and friends) under contention, with try and timed lock.
#include "guest.h"

static pthread_mutex_t lock;
static int counter;

static void *body(void *argument) {
    for (int i = 0; i < 20; i++) {
        OK(pthread_mutex_lock(&lock));
        int seen = counter;
        sched_yield();
        counter = seen + 1;
        OK(pthread_mutex_unlock(&lock));
    }
    return argument;
}

static void *busy(void *argument) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 2);
    CHECK(pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(pthread_mutex_timedlock(&lock, &soon) == ETIMEDOUT);
    return argument;
}

int main(void) {
    pthread_mutexattr_t attr;
    OK(pthread_mutexattr_init(&attr));
    OK(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT));
    OK(pthread_mutex_init(&lock, &attr));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    OK(pthread_mutex_lock(&lock));
    join(start(busy, NULL));
    OK(pthread_mutex_unlock(&lock));
    printf("counter %d\n", counter);
}
