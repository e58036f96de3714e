// FUTEX_WAKE_BITSET wakes only waiters whose bits match.
#include "guest.h"
#include <linux/futex.h>

static atomic_int word;

static long waiters_woken(int bits) { return syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits); }

static void *body(void *argument) {
    int bits = (int)(intptr_t)argument;
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, bits) == 0);
    return NULL;
}

int main(void) {
    pthread_t one = start(body, (void *)1), two = start(body, (void *)2);
    CHECK(waiters_woken(4) == 0);
    long woken;
    while ((woken = waiters_woken(2)) == 0)
        sched_yield();
    join(two);
    printf("bit 2 woke %ld\n", woken);
    while ((woken = waiters_woken(3)) == 0)
        sched_yield();
    join(one);
    printf("bits 3 woke %ld\n", woken);
}
