// The main thread counts without end, under a lock; another one looks at the count twice, and must not be overtaken in between. Straight ahead it never is.
#include "guest.h"
#include <semaphore.h>
#include <assert.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long rounds;
static sem_t never;

static long look(void) {
    pthread_mutex_lock(&lock);
    long seen = rounds;
    pthread_mutex_unlock(&lock);
    return seen;
}

static void *twice(void *argument) {
    long first = look();
    assert(look() < first + 2);
    return argument;
}

// Somebody else is always there, if only to wait.
static void *sleep_for_ever(void *argument) {
    sem_wait(&never);
    return argument;
}

int main(void) {
    start(sleep_for_ever, NULL);
    start(twice, NULL);
    for (;;) {
        pthread_mutex_lock(&lock);
        rounds++;
        pthread_mutex_unlock(&lock);
    }
}
