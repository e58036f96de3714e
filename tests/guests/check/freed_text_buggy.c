// A text is printed after the lock was given back, and may have been freed by then: it is the C library that reads it.
// expect: use-after-free
// min-preemptions: 1
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;

static void *print(void *argument) {
    pthread_mutex_lock(&lock);
    char *mine = text;
    pthread_mutex_unlock(&lock);
    if (mine)
        puts(mine);
    return argument;
}

static void *forget(void *argument) {
    pthread_mutex_lock(&lock);
    char *mine = text;
    text = NULL;
    pthread_mutex_unlock(&lock);
    free(mine);
    return argument;
}

int main(void) {
    text = strdup("hello");
    pthread_t one = start(print, NULL), two = start(forget, NULL);
    join(one);
    join(two);
}
