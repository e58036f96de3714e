// The waiter holds nothing but the condition's own lock while it waits, and the signaller takes one lock after the other.
#include "guest.h"

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;

static void *waiter(void *argument) {
    pthread_mutex_lock(&inner);
    while (!ready)
        pthread_cond_wait(&changed, &inner);
    pthread_mutex_unlock(&inner);
    pthread_mutex_lock(&outer);
    pthread_mutex_unlock(&outer);
    return argument;
}

static void *signaller(void *argument) {
    pthread_mutex_lock(&inner);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&inner);
    pthread_mutex_lock(&outer);
    pthread_mutex_unlock(&outer);
    return argument;
}

int main(void) {
    pthread_t one = start(waiter, NULL), two = start(signaller, NULL);
    join(one);
    join(two);
}
