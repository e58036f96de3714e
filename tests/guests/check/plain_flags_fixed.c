// Mutual exclusion by plain flags: a thread raises its own flag before it looks at the other's, and leaves it at that if that one is up.
// The locks share nothing with each other; they are where threads can be switched.
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
    flag[me] = 1;
    step_aside(me);
    if (flag[1 - me])
        return NULL;
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
