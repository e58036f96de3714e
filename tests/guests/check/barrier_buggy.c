// A worker that learns early that the search is over leaves without its turn at the barrier, where the other waits for it.
// expect: deadlock
// min-preemptions: 0
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int found;

static void *worker(void *argument) {
    pthread_mutex_lock(&lock);
    int over = found;
    if (argument)
        found = 1;
    pthread_mutex_unlock(&lock);
    if (!over)
        pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t finder = start(worker, (void *)1), other = start(worker, NULL);
    join(finder);
    join(other);
}
