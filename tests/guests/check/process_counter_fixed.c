// Two processes count in shared memory, with a lock that lies there as well.
#include "processes.h"
#include <assert.h>

struct state {
    pthread_mutex_t lock;
    volatile int count;
};

static struct state *state;

static void add(void) {
    OK(pthread_mutex_lock(&state->lock));
    int seen = state->count;
    sched_yield();
    state->count = seen + 1;
    OK(pthread_mutex_unlock(&state->lock));
}

int main(void) {
    state = shared_memory(sizeof *state);
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&state->lock, &attributes));
    pid_t pid = CHILD(add());
    add();
    FINE(pid);
    assert(state->count == 2);
}
