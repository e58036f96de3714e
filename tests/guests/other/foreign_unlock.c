// A thread locks a mutex twice; the main thread unlocks it in between, which glibc allows. With EARLY the program may also end before.
#include "guest.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *twice(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

int main(void) {
    pthread_t thread = start(twice, NULL);
#ifdef EARLY
    if (pthread_mutex_trylock(&mutex) == 0)
        _exit(0);
#endif
    while (pthread_mutex_trylock(&mutex) == 0) {
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}
