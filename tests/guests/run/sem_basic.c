// Semaphores: count, try (EAGAIN), blocking wait, overflow (EOVERFLOW).
#include "guest.h"

static sem_t ping, pong;

static void *body(void *argument) {
    for (int i = 0; i < 4; i++) {
        CHECK(sem_wait(&ping) == 0);
        printf("ping %d\n", i);
        CHECK(sem_post(&pong) == 0);
    }
    return argument;
}

int main(void) {
    sem_t counted;
    int value;
    CHECK(sem_init(&counted, 0, 2) == 0);
    CHECK(sem_wait(&counted) == 0 && sem_trywait(&counted) == 0);
    FAILS(sem_trywait(&counted), EAGAIN);
    CHECK(sem_post(&counted) == 0 && sem_getvalue(&counted, &value) == 0 && value == 1);
    CHECK(sem_init(&counted, 0, SEM_VALUE_MAX) == 0);
    FAILS(sem_post(&counted), EOVERFLOW);
    CHECK(sem_init(&ping, 0, 0) == 0 && sem_init(&pong, 0, 0) == 0);
    pthread_t thread = start(body, NULL);
    for (int i = 0; i < 4; i++) {
        CHECK(sem_post(&ping) == 0);
        CHECK(sem_wait(&pong) == 0);
        printf("pong %d\n", i);
    }
    join(thread);
}
