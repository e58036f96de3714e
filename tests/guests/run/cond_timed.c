// Timed waits on both clocks end with ETIMEDOUT, not before their time, and hold the mutex again.
#include "guest.h"

static pthread_mutex_t lock;

static void wait_in_vain(pthread_cond_t *cond, clockid_t clock, int explicit_clock) {
    struct timespec until = in_ms(clock, 3);
    int result;
    do
        result = explicit_clock ? pthread_cond_clockwait(cond, &lock, clock, &until)
                                : pthread_cond_timedwait(cond, &lock, &until);
    while (result == 0);
    CHECK(result == ETIMEDOUT);
    CHECK(now_ns(clock) >= (int64_t)until.tv_sec * 1000000000 + until.tv_nsec);
    CHECK(pthread_mutex_lock(&lock) == EDEADLK);
}

int main(void) {
    pthread_mutexattr_t kind;
    pthread_condattr_t attr;
    pthread_cond_t real = PTHREAD_COND_INITIALIZER, mono;
    OK(pthread_mutexattr_init(&kind));
    OK(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK));
    OK(pthread_mutex_init(&lock, &kind));
    OK(pthread_condattr_init(&attr));
    OK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    OK(pthread_cond_init(&mono, &attr));
    OK(pthread_mutex_lock(&lock));
    wait_in_vain(&real, CLOCK_REALTIME, 0);
    wait_in_vain(&mono, CLOCK_MONOTONIC, 0);
    wait_in_vain(&real, CLOCK_MONOTONIC, 1);
    OK(pthread_mutex_unlock(&lock));
    puts("three timed waits timed out");
}
