// A named semaphore, opened by each process for itself.
#include "processes.h"

// Several of these may run at a time.
static char name[64];

int main(void) {
    snprintf(name, sizeof name, "/tracefork-guest-semaphore-%d", getpid());
    sem_unlink(name);
    CHECK(sem_open(name, 0) == SEM_FAILED && errno == ENOENT);
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    CHECK(semaphore != SEM_FAILED);
    CHECK(sem_open(name, O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED && errno == EEXIST);
    int *count = shared_memory(4096);
    pid_t pids[2];
    for (int i = 0; i < 2; i++)
        pids[i] = CHILD(sem_t *own = sem_open(name, 0); CHECK(own != SEM_FAILED); for (int n = 0; n < 5; n++) {
            CHECK(sem_wait(own) == 0);
            int seen = *count;
            sched_yield();
            *count = seen + 1;
            CHECK(sem_post(own) == 0);
        } CHECK(sem_close(own) == 0));
    FINE(pids[0]);
    FINE(pids[1]);
    CHECK(sem_unlink(name) == 0 && sem_close(semaphore) == 0);
    printf("%d\n", *count);
}
