// An unnamed semaphore in shared memory, counted by several processes.
#include "processes.h"

int main(void) {
    sem_t *semaphores = shared_memory(sizeof(sem_t) * 2), *items = semaphores, *room = semaphores + 1;
    int value;
    CHECK(sem_init(items, 1, 0) == 0 && sem_init(room, 1, 2) == 0);
    pid_t maker = CHILD(for (int i = 0; i < 6; i++) {
        CHECK(sem_wait(room) == 0);
        CHECK(sem_post(items) == 0);
    });
    for (int i = 0; i < 6; i++) {
        CHECK(sem_wait(items) == 0);
        CHECK(sem_post(room) == 0);
    }
    FINE(maker);
    CHECK(sem_getvalue(items, &value) == 0 && value == 0);
    FAILS(sem_trywait(items), EAGAIN);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    FINE(CHILD(FAILS(sem_timedwait(items, &soon), ETIMEDOUT)));
    CHECK(sem_getvalue(room, &value) == 0);
    printf("%d free\n", value);
}
