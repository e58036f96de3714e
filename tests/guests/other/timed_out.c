// A timed wait that the program believes never to run out. It does, if time may pass while others can go on.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_set = PTHREAD_COND_INITIALIZER;
static int value, result;

static void *set(void *argument) {
    pthread_mutex_lock(&lock);
    value = 1;
    pthread_cond_signal(&is_set);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t setter = start(set, NULL);
    struct timespec limit = in_ms(CLOCK_REALTIME, 5000);
    pthread_mutex_lock(&lock);
    while (!value && result == 0)
        result = pthread_cond_timedwait(&is_set, &lock, &limit);
    if (result != 0)
        abort();
    pthread_mutex_unlock(&lock);
    join(setter);
}
