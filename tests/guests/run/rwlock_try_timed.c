// try and timed variants of the reader-writer lock against a reader and against a writer; EDEADLK for oneself.
#include "guest.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *against_reader(void *argument) {
    OK(pthread_rwlock_tryrdlock(&lock));
    OK(pthread_rwlock_unlock(&lock));
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 2);
    CHECK(pthread_rwlock_timedwrlock(&lock, &soon) == ETIMEDOUT);
    return argument;
}

static void *against_writer(void *argument) {
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 2);
    CHECK(pthread_rwlock_timedrdlock(&lock, &soon) == ETIMEDOUT);
    soon = in_ms(CLOCK_MONOTONIC, 2);
    CHECK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    return argument;
}

int main(void) {
    OK(pthread_rwlock_rdlock(&lock));
    join(start(against_reader, NULL));
    OK(pthread_rwlock_unlock(&lock));
    OK(pthread_rwlock_wrlock(&lock));
    join(start(against_writer, NULL));
    CHECK(pthread_rwlock_rdlock(&lock) == EDEADLK);
    OK(pthread_rwlock_unlock(&lock));
    puts("rwlock try and timed");
}
