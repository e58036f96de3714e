// Dining philosophers, each taking the left fork first. The one who is preempted holding a fork starts a ring in which every
// other blocks by itself, so one preemption is enough for any number.
// expect: deadlock
// min-preemptions: 1
#include "guest.h"

#ifndef N
#define N 3
#endif
static pthread_mutex_t forks[N];

static void *philosopher(void *argument) {
    int left = (int)(intptr_t)argument, right = (left + 1) % N;
    pthread_mutex_lock(&forks[left]);
    pthread_mutex_lock(&forks[right]);
    pthread_mutex_unlock(&forks[right]);
    pthread_mutex_unlock(&forks[left]);
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
