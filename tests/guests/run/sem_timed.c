// sem_timedwait and sem_clockwait: ETIMEDOUT at their time, success if posted, EINVAL for a bad time.
#include "guest.h"

static sem_t sem;

static void *poster(void *argument) {
    sleep_ms(1);
    CHECK(sem_post(&sem) == 0);
    return argument;
}

int main(void) {
    CHECK(sem_init(&sem, 0, 0) == 0);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    struct timespec until = in_ms(CLOCK_MONOTONIC, 3);
    FAILS(sem_clockwait(&sem, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 3000000);
    until = (struct timespec){1, 0};
    FAILS(sem_timedwait(&sem, &until), ETIMEDOUT);
    until.tv_nsec = -1;
    FAILS(sem_timedwait(&sem, &until), EINVAL);
    pthread_t thread = start(poster, NULL);
    until = in_ms(CLOCK_REALTIME, 3600 * 1000);
    CHECK(sem_timedwait(&sem, &until) == 0);
    join(thread);
    puts("timed semaphore");
}
