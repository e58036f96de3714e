// At shutdown the data is freed before the worker is joined, who may be about to use it. The block is large, so that the use
// touches memory that is no longer mapped.
// expect: use-after-free
// min-preemptions: 1
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t started;
static char *data;

static void *worker(void *argument) {
    sem_post(&started);
    pthread_mutex_lock(&lock);
    data[100]++;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    data = calloc(1, 1 << 20);
    sem_init(&started, 0, 0);
    pthread_t thread = start(worker, NULL);
    sem_wait(&started);
    free(data);
    join(thread);
}
