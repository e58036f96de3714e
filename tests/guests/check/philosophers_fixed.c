// Dining philosophers who take the fork with the lower number first: no ring of waiting can form.
#include "guest.h"

#ifndef N
#define N 3
#endif
static pthread_mutex_t forks[N];

static void *philosopher(void *argument) {
    int left = (int)(intptr_t)argument, right = (left + 1) % N, first = left < right ? left : right, second = left + right - first;
    pthread_mutex_lock(&forks[first]);
    pthread_mutex_lock(&forks[second]);
    pthread_mutex_unlock(&forks[second]);
    pthread_mutex_unlock(&forks[first]);
    return NULL;
}

int main(void) {
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        pthread_mutex_init(&forks[i], NULL);
    for (intptr_t i = 0; i < N; i++)
        threads[i] = start(philosopher, (void *)i);
    for (int i = 0; i < N; i++)
        join(threads[i]);
}
