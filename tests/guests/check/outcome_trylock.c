// A trylock finds the lock held or free.
// outcomes: "busy" "got"
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *first(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *second(void *argument) {
    int result = pthread_mutex_trylock(&lock);
    write_all(1, result == 0 ? "got" : "busy");
    if (result == 0)
        pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(first, NULL), two = start(second, NULL);
    join(one);
    join(two);
}
