// Philosophers who hold one lock while they take their two forks: one execution for each order in which they take it.
#include "guest.h"

#ifndef N
#define N 3
#endif
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER, forks[N];

static void *dine(void *argument) {
    intptr_t i = (intptr_t)argument;
    pthread_mutex_lock(&table);
    pthread_mutex_lock(&forks[i]);
    pthread_mutex_lock(&forks[(i + 1) % N]);
    pthread_mutex_unlock(&table);
    pthread_mutex_unlock(&forks[i]);
    pthread_mutex_unlock(&forks[(i + 1) % N]);
    return NULL;
}

int main(void) {
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        pthread_mutex_init(&forks[i], NULL);
    for (intptr_t i = 0; i < N; i++)
        CHECK(pthread_create(&threads[i], NULL, dine, (void *)i) == 0);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
