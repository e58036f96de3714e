// A broadcast wakes every waiter; all see the generation that the broadcaster set.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER, arrived = PTHREAD_COND_INITIALIZER;
static int waiting, generation;

static void *body(void *argument) {
    OK(pthread_mutex_lock(&lock));
    waiting++;
    OK(pthread_cond_signal(&arrived));
    while (generation == 0)
        OK(pthread_cond_wait(&opened, &lock));
    waiting--;
    OK(pthread_mutex_unlock(&lock));
    return argument;
}

int main(void) {
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        threads[i] = start(body, NULL);
    OK(pthread_mutex_lock(&lock));
    while (waiting < 5)
        OK(pthread_cond_wait(&arrived, &lock));
    generation = 1;
    OK(pthread_cond_broadcast(&opened));
    printf("%d wait\n", waiting);
    OK(pthread_mutex_unlock(&lock));
    for (int i = 0; i < 5; i++)
        join(threads[i]);
    printf("%d wait\n", waiting);
}
