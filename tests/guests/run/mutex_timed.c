// A timed lock gives up at its time, on both clocks, and not before; and gets the mutex when it is free.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_in_vain(void *argument) {
    int64_t before = now_ns(CLOCK_MONOTONIC);
    struct timespec real = in_ms(CLOCK_REALTIME, 3), mono;
    CHECK(pthread_mutex_timedlock(&lock, &real) == ETIMEDOUT);
    mono = in_ms(CLOCK_MONOTONIC, 3);
    CHECK(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &mono) == ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 5000000);
    real = (struct timespec){0, 0};
    CHECK(pthread_mutex_timedlock(&lock, &real) == ETIMEDOUT);
    real.tv_nsec = 1000000000;
    CHECK(pthread_mutex_timedlock(&lock, &real) == EINVAL);
    return argument;
}

int main(void) {
    OK(pthread_mutex_lock(&lock));
    join(start(wait_in_vain, NULL));
    OK(pthread_mutex_unlock(&lock));
    struct timespec past = {0, 0};
    OK(pthread_mutex_timedlock(&lock, &past));
    puts("timed locks timed out when they should");
}
