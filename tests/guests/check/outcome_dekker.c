// Each of two threads raises its flag and then looks at the other's, by plain atomic stores and loads. A lock of its own in between is all that a switch can
// happen at, and the two locks share nothing. Who looks last sees the other's flag; not seeing any is impossible.
// modes: sync
// outcomes: "1 0\n" "0 1\n" "1 1\n"
#include "guest.h"

static pthread_mutex_t aside[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static atomic_int flag[2];
static int seen[2];

static void *thread(void *argument) {
    int me = (int)(intptr_t)argument;
    atomic_store_explicit(&flag[me], 1, memory_order_relaxed);
    pthread_mutex_lock(&aside[me]);
    seen[me] = atomic_load_explicit(&flag[1 - me], memory_order_relaxed);
    pthread_mutex_unlock(&aside[me]);
    return NULL;
}

int main(void) {
    pthread_t one = start(thread, (void *)0), other = start(thread, (void *)1);
    join(one);
    join(other);
    printf("%d %d\n", seen[0], seen[1]);
}
