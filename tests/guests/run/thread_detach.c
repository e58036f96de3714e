// Detached threads run to their end and their stacks are given back; the last one is waited for by semaphore.
#include "guest.h"

static sem_t done;

static void *body(void *argument) {
    if (argument)
        OK(pthread_detach(pthread_self()));
    CHECK(sem_post(&done) == 0);
    return NULL;
}

int main(void) {
    CHECK(sem_init(&done, 0, 0) == 0);
    pthread_attr_t detached;
    OK(pthread_attr_init(&detached));
    OK(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED));
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, i % 2 ? &detached : NULL, body, i % 2 ? NULL : (void *)1));
    }
    for (int i = 0; i < 6; i++)
        CHECK(sem_wait(&done) == 0);
    puts("six detached threads have run");
}
