// Raw futex wait and wake: EAGAIN for a changed word, the number woken, and the handover itself.
#include "guest.h"
#include <linux/futex.h>

static atomic_int word, waiting;

static long futex(atomic_int *address, int op, int value) { return syscall(SYS_futex, address, op, value, NULL, NULL, 0); }

static void *body(void *argument) {
    atomic_fetch_add(&waiting, 1);
    while (word == 0)
        futex(&word, FUTEX_WAIT_PRIVATE, 0);
    return argument;
}

int main(void) {
    FAILS(futex(&word, FUTEX_WAIT, 1), EAGAIN);
    CHECK(futex(&word, FUTEX_WAKE_PRIVATE, 100) == 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    while (waiting < 3)
        sched_yield();
    word = 1;
    long woken = futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX);
    CHECK(woken >= 0 && woken <= 3);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    puts("three waiters went on");
    FAILS(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT, 0, NULL, NULL, 0), EINVAL);
}
