// The waiter looks at the flag, lets the lock go, and only then waits: a signal in between is lost.
// expect: deadlock
// min-preemptions: 1
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;

static void *signaller(void *argument) {
    pthread_mutex_lock(&lock);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t thread = start(signaller, NULL);
    pthread_mutex_lock(&lock);
    int seen = ready;
    pthread_mutex_unlock(&lock);
    if (!seen) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    join(thread);
}
