// Mutual exclusion by plain flags, after Dekker, but a thread looks at the other's flag before it raises its own: both get in.
// The locks share nothing with each other; they are where threads can be switched.
// expect: assert
// min-preemptions: 2
// modes: sync
#include "guest.h"
#include <assert.h>

static pthread_mutex_t aside[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static volatile int flag[2], inside;

static void step_aside(int me) {
    pthread_mutex_lock(&aside[me]);
    pthread_mutex_unlock(&aside[me]);
}

static void *thread(void *argument) {
    int me = (int)(intptr_t)argument;
    if (flag[1 - me])
        return NULL;
    step_aside(me);
    flag[me] = 1;
    inside++;
    step_aside(me);
    assert(inside == 1);
    inside--;
    flag[me] = 0;
    return NULL;
}

int main(void) {
    pthread_t one = start(thread, (void *)0), other = start(thread, (void *)1);
    join(one);
    join(other);
}
