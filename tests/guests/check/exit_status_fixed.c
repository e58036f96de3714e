// Adding to a shared total in one critical section.
// options: --expect-exit 0
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int total;

static void *add(void *argument) {
    pthread_mutex_lock(&lock);
    total++;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(add, NULL), two = start(add, NULL);
    join(one);
    join(two);
    return total == 2 ? 0 : 4;
}
