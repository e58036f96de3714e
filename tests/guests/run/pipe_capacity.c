// A full pipe: EAGAIN without blocking, 64 KiB by default, F_SETPIPE_SZ, FIONREAD, and room again after a read.
#include "guest.h"
#include <sys/ioctl.h>

int main(void) {
    static char block[4096];
    int ends[2], available, total = 0;
    CHECK(pipe2(ends, O_NONBLOCK) == 0 && fcntl(ends[1], F_GETPIPE_SZ) == 65536);
    FAILS(read(ends[0], block, 1), EAGAIN);
    while (write(ends[1], block, sizeof block) == sizeof block)
        total += sizeof block;
    CHECK(errno == EAGAIN);
    printf("took %d\n", total);
    CHECK(ioctl(ends[0], FIONREAD, &available) == 0);
    printf("holds %d\n", available);
    CHECK(read(ends[0], block, sizeof block) == sizeof block && write(ends[1], block, sizeof block) == sizeof block);
    FAILS(write(ends[1], block, 1), EAGAIN);
    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096 && fcntl(ends[0], F_GETPIPE_SZ) == 4096);
}
