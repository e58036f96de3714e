// A timed wait with a distant time limit ends at the signal, with the result 0.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ready;

static void *signaller(void *argument) {
    OK(pthread_mutex_lock(&lock));
    ready = 1;
    OK(pthread_mutex_unlock(&lock));
    OK(pthread_cond_signal(&cond));
    return argument;
}

int main(void) {
    struct timespec until = in_ms(CLOCK_REALTIME, 3600 * 1000);
    OK(pthread_mutex_lock(&lock));
    pthread_t thread = start(signaller, NULL);
    int result = 0;
    while (!ready && result == 0)
        result = pthread_cond_timedwait(&cond, &lock, &until);
    OK(pthread_mutex_unlock(&lock));
    join(thread);
    printf("result %d ready %d\n", result, ready);
}
