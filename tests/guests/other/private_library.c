// A library of a program's own, in two versions: with -DSECOND it says something else, and everything in it is elsewhere.
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls;

#ifdef SECOND
int unused(int value) {
    for (int i = 0; i < 1000; i++)
        value = value * 31 + calls;
    return value;
}
#endif

int next(void) {
    pthread_mutex_lock(&lock);
#ifdef SECOND
    calls += 100;
#endif
    int mine = ++calls;
    pthread_mutex_unlock(&lock);
    return mine;
}
