// A worker that finds the job taken gives up in the middle, with the semaphore: the parent waits for it for ever.
// expect: deadlock
// min-preemptions: 0
#include "processes.h"

struct state {
    sem_t semaphore;
    int jobs;
};

int main(void) {
    struct state *state = shared_memory(sizeof *state);
    CHECK(sem_init(&state->semaphore, 1, 1) == 0);
    state->jobs = 1;
    pid_t pid = CHILD(CHECK(sem_wait(&state->semaphore) == 0); if (state->jobs == 0) _exit(1); state->jobs--;
                      CHECK(sem_post(&state->semaphore) == 0));
    pid_t second = CHILD(CHECK(sem_wait(&state->semaphore) == 0); if (state->jobs == 0) _exit(1); state->jobs--;
                         CHECK(sem_post(&state->semaphore) == 0));
    reap(pid);
    CHECK(sem_wait(&state->semaphore) == 0);
    state->jobs = 0;
    CHECK(sem_post(&state->semaphore) == 0);
    reap(second);
}
