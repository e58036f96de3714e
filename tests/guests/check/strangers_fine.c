// Threads that have nothing in common, each with a lock and memory of its own: one execution. With EXITS the last one ends by `pthread_exit`, which
// loads a library.
#include "guest.h"

#ifndef N
#define N 4
#endif
static pthread_mutex_t locks[N];

static void *work(void *argument) {
    intptr_t i = (intptr_t)argument;
    for (int round = 0; round < 2; round++) {
        pthread_mutex_lock(&locks[i]);
        char *memory = malloc(100);
        memory[0] = (char)round;
        free(memory);
        pthread_mutex_unlock(&locks[i]);
    }
#ifdef EXITS
    if (i == N - 1)
        pthread_exit(NULL);
#endif
    return NULL;
}

int main(void) {
    pthread_t threads[N];
    for (intptr_t i = 0; i < N; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
