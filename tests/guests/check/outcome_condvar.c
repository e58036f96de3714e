// A condition variable hands over: there is only one outcome, whoever comes first.
// outcomes: "pc"
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int produced;

static void *first(void *argument) {
    pthread_mutex_lock(&lock);
    write_all(1, "p");
    produced = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *second(void *argument) {
    pthread_mutex_lock(&lock);
    while (!produced)
        pthread_cond_wait(&changed, &lock);
    write_all(1, "c");
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(first, NULL), two = start(second, NULL);
    join(one);
    join(two);
}
