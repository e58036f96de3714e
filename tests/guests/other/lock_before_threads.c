// Takes a lock when there is one thread, when there are two, and when there is one again. `phase` tells which time it is.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int phase, taken;

static void take(void) {
    phase++;
    OK(pthread_mutex_lock(&lock));
    taken++;
    OK(pthread_mutex_unlock(&lock));
}

static void *other(void *argument) {
    take();
    return argument;
}

int main(void) {
    take();
    OK(pthread_join(start(other, NULL), NULL));
    take();
    return taken == 3 ? 0 : 1;
}
