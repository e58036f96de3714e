// A lock keeps each thread's two writes together.
// outcomes: "aabb" "bbaa"
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void twice(const char *letter) {
    pthread_mutex_lock(&lock);
    write_all(1, letter);
    write_all(1, letter);
    pthread_mutex_unlock(&lock);
}

static void *first(void *argument) {
    twice("a");
    return argument;
}

static void *second(void *argument) {
    twice("b");
    return argument;
}

int main(void) {
    pthread_t one = start(first, NULL), two = start(second, NULL);
    join(one);
    join(two);
}
