// Every worker takes its turn at the barrier and looks afterwards, when all see the same.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int found;

static void *worker(void *argument) {
    pthread_mutex_lock(&lock);
    if (argument)
        found = 1;
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&barrier);
    if (!found)
        abort();
    return NULL;
}

int main(void) {
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t finder = start(worker, (void *)1), other = start(worker, NULL);
    join(finder);
    join(other);
}
