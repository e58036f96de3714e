// Sleeps until another thread should have done its part. Its accesses are locked: only the order is wrong.
#include "guest.h"
#include <assert.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ready;

static void *prepare(void *argument) {
    pthread_mutex_lock(&lock);
    ready = 1;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, prepare, NULL);
    usleep(10000);
    pthread_mutex_lock(&lock);
    int is_ready = ready;
    pthread_mutex_unlock(&lock);
    assert(is_ready);
    pthread_join(thread, NULL);
    return 0;
}
