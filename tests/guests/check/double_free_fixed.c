// The thread whose decrement reached zero frees the block; the decision is taken under the lock.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int references = 2;
static char *block;

static void *release(void *argument) {
    pthread_mutex_lock(&lock);
    int last = --references == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        free(block);
    return argument;
}

int main(void) {
    block = malloc(1 << 20);
    pthread_t one = start(release, NULL), two = start(release, NULL);
    join(one);
    join(two);
}
