// A recursive mutex is taken again by its owner, is busy for others until given back as often.
#include "guest.h"

static pthread_mutex_t lock;

static void *try_it(void *argument) {
    (void)argument;
    int result = pthread_mutex_trylock(&lock);
    if (result == 0)
        OK(pthread_mutex_unlock(&lock));
    return (void *)(intptr_t)result;
}

int main(void) {
    pthread_mutexattr_t attr;
    OK(pthread_mutexattr_init(&attr));
    OK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE));
    OK(pthread_mutex_init(&lock, &attr));
    OK(pthread_mutex_lock(&lock));
    OK(pthread_mutex_lock(&lock));
    OK(pthread_mutex_trylock(&lock));
    OK(pthread_mutex_unlock(&lock));
    OK(pthread_mutex_unlock(&lock));
    printf("once held: busy %d\n", (intptr_t)join(start(try_it, NULL)) == EBUSY);
    OK(pthread_mutex_unlock(&lock));
    printf("given back: %ld\n", (long)(intptr_t)join(start(try_it, NULL)));
    CHECK(pthread_mutex_unlock(&lock) == EPERM);
}
