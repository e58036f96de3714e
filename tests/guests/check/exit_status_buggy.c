// Adding to a shared total in two critical sections loses an update; the exit status shows it.
// options: --expect-exit 0
// expect: exit
// min-preemptions: 1
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int total;

static void *add(void *argument) {
    pthread_mutex_lock(&lock);
    int seen = total;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    total = seen + 1;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(add, NULL), two = start(add, NULL);
    join(one);
    join(two);
    return total == 2 ? 0 : 4;
}
