// FUTEX_REQUEUE and FUTEX_CMP_REQUEUE move waiters to another word without waking them; EAGAIN for a changed word.
#include "guest.h"
#include <linux/futex.h>

static atomic_int from, to;

static void *body(void *argument) {
    CHECK(syscall(SYS_futex, &from, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == 0);
    return argument;
}

int main(void) {
    pthread_t threads[3];
    FAILS(syscall(SYS_futex, &from, FUTEX_CMP_REQUEUE_PRIVATE, 1, 10, &to, 77), EAGAIN);
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    // A waiter that the kernel wakes for no reason, which happens to new threads on a loaded machine, waits anew: on the word that
    // it named, not on the one it was moved to. So how many were moved is no fact to rely on; that all are woken there is.
    long woken = 0;
    for (int round = 0; woken < 3; round++) {
        int operation = round % 2 ? FUTEX_REQUEUE_PRIVATE : FUTEX_CMP_REQUEUE_PRIVATE;
        CHECK(syscall(SYS_futex, &from, operation, 0, 2, &to, 0) >= 0);
        woken += syscall(SYS_futex, &to, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        sched_yield();
    }
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("woken on the other word %ld\n", woken);
}
