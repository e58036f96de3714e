// Two threads that may wait for each other's lock, while the main thread counts without end under one of them: every path that goes on with the main thread
// is endless, and every state of it a new one.
#include "guest.h"
#include <semaphore.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static long rounds;
static sem_t never;

static void *forward(void *argument) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return argument;
}

static void *backward(void *argument) {
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return argument;
}

// Somebody else is always there, if only to wait.
static void *sleep_for_ever(void *argument) {
    sem_wait(&never);
    return argument;
}

int main(void) {
    start(sleep_for_ever, NULL);
    start(forward, NULL);
    start(backward, NULL);
    for (;; rounds++) {
        pthread_mutex_lock(&a);
        pthread_mutex_unlock(&a);
    }
}
