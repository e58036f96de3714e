// FUTEX_WAKE_OP changes the second word, wakes on the first, and on the second if its old value compares.
#include "guest.h"
#include <linux/futex.h>

static atomic_int first, second;

static void *wait_on(void *argument) {
    CHECK(syscall(SYS_futex, argument, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == 0 || errno == EAGAIN);
    return NULL;
}

static long wake_op(int op, int oparg, int cmp, int cmparg) {
    return syscall(SYS_futex, &first, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &second, FUTEX_OP(op, oparg, cmp, cmparg));
}

int main(void) {
    second = 10;
    CHECK(wake_op(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 10) == 0 && second == 15);
    CHECK(wake_op(FUTEX_OP_OR, 0x30, FUTEX_OP_CMP_LT, 0) == 0 && second == 0x3f);
    CHECK(wake_op(FUTEX_OP_ANDN, 0xf, FUTEX_OP_CMP_GE, 0) == 0 && second == 0x30);
    CHECK(wake_op(FUTEX_OP_XOR, 0x11, FUTEX_OP_CMP_NE, 0) == 0 && second == 0x21);
    CHECK(wake_op(FUTEX_OP_SET, 0, FUTEX_OP_CMP_GT, 0) == 0 && second == 0);
    pthread_t a = start(wait_on, &first), b = start(wait_on, &second);
    long woken = 0;
    while (woken < 2) {
        woken += wake_op(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
        sched_yield();
    }
    join(a);
    join(b);
    printf("woken %ld, second %d\n", woken, second);
}
