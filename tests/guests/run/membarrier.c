// How membarrier behaves: what is offered can be registered for and used; an unknown command is EINVAL.
#include "guest.h"
#include <linux/membarrier.h>

static long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

int main(void) {
    long offered = membarrier(MEMBARRIER_CMD_QUERY);
    if (offered > 0 && (offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        CHECK(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0);
        CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
    } else {
        CHECK(offered >= 0 || errno == ENOSYS);
    }
    CHECK(membarrier(0x40000000) == -1 && (errno == EINVAL || errno == ENOSYS));
    puts("membarrier answered");
}
