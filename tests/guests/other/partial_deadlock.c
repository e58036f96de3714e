// Two threads that may wait for each other's lock for ever while the rest of the program goes on: EXIT ends it at once, TICKER has yet another thread that never
// ends, TIMED waits a while first; with TIMEDLOCK one of the two gives up, and nothing is wrong.
#include "guest.h"
#include <time.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;

static void *forward(void *argument) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return argument;
}

static void *backward(void *argument) {
    pthread_mutex_lock(&b);
#ifdef TIMEDLOCK
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    if (pthread_mutex_timedlock(&a, &soon) == 0)
        pthread_mutex_unlock(&a);
#else
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
#endif
    pthread_mutex_unlock(&b);
    return argument;
}

#ifdef TICKER
static void *tick(void *argument) {
    for (;;)
        usleep(1000);
    return argument;
}
#endif

int main(void) {
    pthread_t one = start(forward, NULL), other = start(backward, NULL);
#ifdef TICKER
    start(tick, NULL);
    usleep(5000);
#elif defined TIMED
    sleep(1);
#elif defined TIMEDLOCK
    pthread_join(one, NULL);
    pthread_join(other, NULL);
#endif
    (void)one, (void)other;
    _exit(0);
}
