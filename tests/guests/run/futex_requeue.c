// FUTEX_REQUEUE and FUTEX_CMP_REQUEUE move waiters to another word without waking them; EAGAIN for a changed word.
#include "guest.h"
#include <linux/futex.h>

static atomic_int from, to, entered;

static void *body(void *argument) {
    atomic_fetch_add(&entered, 1);
    CHECK(syscall(SYS_futex, &from, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == 0);
    return argument;
}

int main(void) {
    pthread_t threads[3];
    FAILS(syscall(SYS_futex, &from, FUTEX_CMP_REQUEUE_PRIVATE, 1, 10, &to, 77), EAGAIN);
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    long moved = 0, woken = 0;
    while (moved < 2) {
        moved += syscall(SYS_futex, &from, FUTEX_CMP_REQUEUE_PRIVATE, 0, 2 - moved, &to, 0);
        sched_yield();
    }
    while (moved < 3) {
        moved += syscall(SYS_futex, &from, FUTEX_REQUEUE_PRIVATE, 0, 1, &to, 0);
        sched_yield();
    }
    printf("moved %ld\n", moved);
    CHECK(syscall(SYS_futex, &from, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0) == 0);
    woken += syscall(SYS_futex, &to, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    woken += syscall(SYS_futex, &to, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("woken on the other word %ld\n", woken);
}
