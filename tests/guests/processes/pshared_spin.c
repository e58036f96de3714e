// Processes that spin on a word of shared memory, by hand and with a spin lock.
#include "processes.h"

struct state {
    pthread_spinlock_t lock;
    atomic_int flag;
    int count;
};

int main(void) {
    struct state *state = shared_memory(sizeof *state);
    OK(pthread_spin_init(&state->lock, PTHREAD_PROCESS_SHARED));
    pid_t pids[2];
    for (int i = 0; i < 2; i++)
        pids[i] = CHILD(while (!state->flag) sched_yield(); for (int n = 0; n < 5; n++) {
            OK(pthread_spin_lock(&state->lock));
            state->count++;
            OK(pthread_spin_unlock(&state->lock));
        });
    state->flag = 1;
    FINE(pids[0]);
    FINE(pids[1]);
    printf("%d\n", state->count);
}
