// Futex time limits: relative for WAIT, absolute for WAIT_BITSET on either clock, ETIMEDOUT, EINVAL for a bad one.
#include "guest.h"
#include <linux/futex.h>

static int word = 5;

int main(void) {
    struct timespec t = {0, 3000000};
    int64_t before = now_ns(CLOCK_MONOTONIC);
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &t, NULL, 0), ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 3000000);
    t = in_ms(CLOCK_MONOTONIC, 3);
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 5, &t, NULL, ~0), ETIMEDOUT);
    CHECK(now_ns(CLOCK_MONOTONIC) >= (int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
    t = in_ms(CLOCK_REALTIME, 3);
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 5, &t, NULL, ~0), ETIMEDOUT);
    t = (struct timespec){1, 0};
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 5, &t, NULL, ~0), ETIMEDOUT);
    t = (struct timespec){0, 1000000000};
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &t, NULL, 0), EINVAL);
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 6, &t, NULL, 0), EINVAL);
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 5, NULL, NULL, 0), EINVAL);
    FAILS(syscall(SYS_futex, NULL, FUTEX_WAIT_PRIVATE, 5, NULL, NULL, 0), EFAULT);
    FAILS(syscall(SYS_futex, &word, 99, 5, NULL, NULL, 0), ENOSYS);
    puts("futex time limits");
}
