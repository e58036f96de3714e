// An error-checking mutex: EDEADLK for a second lock by the owner, EPERM for an unlock by another thread.
#include "guest.h"

static pthread_mutex_t lock;

static void *unlock_it(void *argument) {
    (void)argument;
    return (void *)(intptr_t)pthread_mutex_unlock(&lock);
}

int main(void) {
    pthread_mutexattr_t attr;
    OK(pthread_mutexattr_init(&attr));
    OK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK));
    OK(pthread_mutex_init(&lock, &attr));
    OK(pthread_mutex_lock(&lock));
    printf("second lock: %s\n", pthread_mutex_lock(&lock) == EDEADLK ? "EDEADLK" : "wrong");
    printf("trylock: %s\n", pthread_mutex_trylock(&lock) == EBUSY ? "EBUSY" : "wrong");
    printf("other thread: %s\n", (intptr_t)join(start(unlock_it, NULL)) == EPERM ? "EPERM" : "wrong");
    OK(pthread_mutex_unlock(&lock));
    printf("not held: %s\n", pthread_mutex_unlock(&lock) == EPERM ? "EPERM" : "wrong");
    OK(pthread_mutex_destroy(&lock));
}
