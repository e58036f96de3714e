// A barrier in shared memory: one of three processes is told that it was the last.
#include "processes.h"

struct state {
    pthread_barrier_t barrier;
    atomic_int serial, arrived;
};

int main(void) {
    struct state *state = shared_memory(sizeof *state);
    pthread_barrierattr_t attributes;
    OK(pthread_barrierattr_init(&attributes));
    OK(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_barrier_init(&state->barrier, &attributes, 3));
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        pids[i] = CHILD(for (int round = 1; round <= 2; round++) {
            state->arrived++;
            int result = pthread_barrier_wait(&state->barrier);
            CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
            CHECK(state->arrived >= 3 * round);
            state->serial += result == PTHREAD_BARRIER_SERIAL_THREAD;
        });
    for (int i = 0; i < 3; i++)
        FINE(pids[i]);
    printf("%d rounds\n", state->serial);
}
