// A thread already waiting for a robust mutex is woken when the owner ends without unlocking.
#include "guest.h"

static pthread_mutex_t lock;
static sem_t held;

static void *owner(void *argument) {
    OK(pthread_mutex_lock(&lock));
    CHECK(sem_post(&held) == 0);
    sleep_ms(3);
    return argument;
}

int main(void) {
    pthread_mutexattr_t attr;
    OK(pthread_mutexattr_init(&attr));
    OK(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutex_init(&lock, &attr));
    CHECK(sem_init(&held, 0, 0) == 0);
    pthread_t thread = start(owner, NULL);
    CHECK(sem_wait(&held) == 0);
    CHECK(pthread_mutex_lock(&lock) == EOWNERDEAD);
    puts("woken by the owner's death");
    OK(pthread_mutex_consistent(&lock));
    OK(pthread_mutex_unlock(&lock));
    join(thread);
}
