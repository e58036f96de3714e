// Readers share the lock at the same time (a barrier inside proves it), a writer has it alone.
#include "guest.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t readers_inside;
static volatile int value;

static void *reader(void *argument) {
    OK(pthread_rwlock_rdlock(&lock));
    pthread_barrier_wait(&readers_inside);
    OK(pthread_rwlock_unlock(&lock));
    return argument;
}

static void *writer(void *argument) {
    for (int i = 0; i < 20; i++) {
        OK(pthread_rwlock_wrlock(&lock));
        int seen = value;
        sched_yield();
        value = seen + 1;
        OK(pthread_rwlock_unlock(&lock));
    }
    return argument;
}

int main(void) {
    pthread_t threads[3];
    OK(pthread_barrier_init(&readers_inside, NULL, 3));
    for (int i = 0; i < 3; i++)
        threads[i] = start(reader, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    puts("three readers inside at once");
    for (int i = 0; i < 3; i++)
        threads[i] = start(writer, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("written %d times\n", value);
}
