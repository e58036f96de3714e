// Two threads wait for each other's end, right after a semaphore let them go on; main waits for a signal that nobody sends.
#include "guest.h"

static pthread_t one, other;
static sem_t go;

static void *join_that(void *thread) {
    sem_wait(&go);
    pthread_join(*(pthread_t *)thread, NULL);
    return NULL;
}

int main(void) {
    CHECK(sem_init(&go, 0, 0) == 0);
    one = start(join_that, &other);
    other = start(join_that, &one);
    sem_post(&go);
    sem_post(&go);
    pause();
}
