// A mutex in shared memory keeps processes apart.
#include "processes.h"

struct state {
    pthread_mutex_t lock;
    int count, inside;
};

int main(void) {
    struct state *state = shared_memory(sizeof *state);
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&state->lock, &attributes));
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        pids[i] = CHILD(for (int n = 0; n < 10; n++) {
            OK(pthread_mutex_lock(&state->lock));
            CHECK(++state->inside == 1);
            state->count++;
            state->inside--;
            OK(pthread_mutex_unlock(&state->lock));
        });
    for (int i = 0; i < 3; i++)
        FINE(pids[i]);
    printf("%d\n", state->count);
    OK(pthread_mutex_lock(&state->lock));
    FINE(CHILD(CHECK(pthread_mutex_trylock(&state->lock) == EBUSY)));
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    FINE(CHILD(CHECK(pthread_mutex_timedlock(&state->lock, &soon) == ETIMEDOUT)));
    OK(pthread_mutex_unlock(&state->lock));
}
