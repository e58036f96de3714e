// A cancellation request stays pending while cancellation is disabled and acts at the next test point after.
#include "guest.h"

static sem_t ready, cancelled;

static void *body(void *argument) {
    int old;
    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
    CHECK(sem_post(&ready) == 0);
    CHECK(sem_wait(&cancelled) == 0);
    sleep_ms(1);
    puts("still alive after the request");
    OK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL));
    pthread_testcancel();
    puts("never printed");
    return argument;
}

int main(void) {
    CHECK(sem_init(&ready, 0, 0) == 0 && sem_init(&cancelled, 0, 0) == 0);
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&ready) == 0);
    OK(pthread_cancel(thread));
    CHECK(sem_post(&cancelled) == 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    puts("cancelled at the test point");
}
