// tryjoin says EBUSY while the thread lives, timedjoin ETIMEDOUT, joining oneself EDEADLK.
#include "guest.h"

static sem_t go;

static void *body(void *argument) {
    CHECK(sem_wait(&go) == 0);
    return argument;
}

int main(void) {
    CHECK(sem_init(&go, 0, 0) == 0);
    pthread_t thread = start(body, (void *)5);
    void *result;
    CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 2);
    CHECK(pthread_timedjoin_np(thread, &result, &soon) == ETIMEDOUT);
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    CHECK(sem_post(&go) == 0);
    OK(pthread_join(thread, &result));
    printf("busy, timed out, joined with %ld\n", (long)(intptr_t)result);
}
