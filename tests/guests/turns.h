// Three threads take turns under one mutex and condition variable, each with its own thread-local counter.
// Shared by the variants that differ only in how they are linked.
#ifndef TURNS_H
#define TURNS_H
#include "guest.h"

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn;
static __thread int turns_taken;

static void *turn_taker(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < 4; i++) {
        OK(pthread_mutex_lock(&turn_lock));
        while (turn % 3 != me)
            OK(pthread_cond_wait(&turn_changed, &turn_lock));
        printf("thread %d turn %d\n", me, ++turns_taken);
        turn++;
        OK(pthread_cond_broadcast(&turn_changed));
        OK(pthread_mutex_unlock(&turn_lock));
    }
    return NULL;
}

static inline void take_turns(void) {
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        threads[i] = start(turn_taker, (void *)i);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
}
#endif
