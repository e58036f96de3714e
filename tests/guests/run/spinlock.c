// pthread spin locks: mutual exclusion by spinning, EBUSY for try.
#include "guest.h"

static pthread_spinlock_t lock;
static volatile int counter;

static void *body(void *argument) {
    for (int i = 0; i < 20; i++) {
        OK(pthread_spin_lock(&lock));
        int seen = counter;
        sched_yield();
        counter = seen + 1;
        OK(pthread_spin_unlock(&lock));
    }
    return argument;
}

int main(void) {
    pthread_t threads[3];
    OK(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
    OK(pthread_spin_lock(&lock));
    CHECK(pthread_spin_trylock(&lock) == EBUSY);
    OK(pthread_spin_unlock(&lock));
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("counter %d\n", counter);
}
