// Reading and writing a counter in two critical sections: an update may be lost.
// outcomes: "1" "2"
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *first(void *argument) {
    pthread_mutex_lock(&lock);
    int seen = counter;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    counter = seen + 1;
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *second(void *argument) { return first(argument); }

int main(void) {
    pthread_t one = start(first, NULL), two = start(second, NULL);
    join(one);
    join(two);
    printf("%d", counter);
}
