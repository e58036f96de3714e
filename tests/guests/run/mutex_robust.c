// A robust mutex whose owner ended: the next locker gets EOWNERDEAD and may make it consistent, or it is lost.
#include "guest.h"

static pthread_mutex_t lock;

static void *die_holding(void *argument) {
    OK(pthread_mutex_lock(&lock));
    return argument;
}

static void *wait_for_it(void *argument) {
    (void)argument;
    int result = pthread_mutex_lock(&lock);
    if (result == EOWNERDEAD)
        OK(pthread_mutex_consistent(&lock));
    OK(pthread_mutex_unlock(&lock));
    return (void *)(intptr_t)result;
}

int main(void) {
    pthread_mutexattr_t attr;
    OK(pthread_mutexattr_init(&attr));
    OK(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutex_init(&lock, &attr));
    join(start(die_holding, NULL));
    printf("owner dead: %d\n", (intptr_t)join(start(wait_for_it, NULL)) == EOWNERDEAD);
    printf("consistent again: %ld\n", (long)(intptr_t)join(start(wait_for_it, NULL)));
    join(start(die_holding, NULL));
    CHECK(pthread_mutex_lock(&lock) == EOWNERDEAD);
    OK(pthread_mutex_unlock(&lock));
    printf("not recoverable: %d\n", pthread_mutex_lock(&lock) == ENOTRECOVERABLE);
}
