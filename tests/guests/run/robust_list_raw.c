// A robust list set up by hand: at thread end the kernel sets FUTEX_OWNER_DIED in the listed lock word.
#include "guest.h"
#include <linux/futex.h>

struct lock {
    struct robust_list link;
    atomic_uint word;
};
static struct lock lock;
static struct robust_list_head head;

static void *body(void *argument) {
    head.list.next = &lock.link;
    lock.link.next = &head.list;
    head.futex_offset = (char *)&lock.word - (char *)&lock.link;
    head.list_op_pending = NULL;
    CHECK(syscall(SYS_set_robust_list, &head, sizeof head) == 0);
    struct robust_list_head *got;
    size_t size;
    CHECK(syscall(SYS_get_robust_list, 0, &got, &size) == 0 && got == &head && size == sizeof head);
    lock.word = (unsigned)syscall(SYS_gettid);
    return argument;
}

int main(void) {
    FAILS(syscall(SYS_set_robust_list, &head, 3), EINVAL);
    join(start(body, NULL));
    printf("owner died: %d, tid cleared: %d\n", !!(lock.word & FUTEX_OWNER_DIED), !(lock.word & FUTEX_TID_MASK));
}
