// /dev/null, /dev/zero, /dev/full and /dev/urandom behave; getrandom fills what it is asked to.
#include "guest.h"
#include <sys/random.h>

int main(void) {
    char bytes[64], zeros[64] = {0};
    int fd = open("/dev/null", O_RDWR);
    CHECK(fd >= 0 && write(fd, "gone", 4) == 4 && read(fd, bytes, 1) == 0 && close(fd) == 0);
    CHECK((fd = open("/dev/zero", O_RDONLY)) >= 0);
    memset(bytes, 1, sizeof bytes);
    CHECK(read(fd, bytes, 64) == 64 && memcmp(bytes, zeros, 64) == 0 && close(fd) == 0);
    CHECK((fd = open("/dev/full", O_WRONLY)) >= 0);
    FAILS(write(fd, "x", 1), ENOSPC);
    CHECK((fd = open("/dev/urandom", O_RDONLY)) >= 0);
    CHECK(read(fd, bytes, 64) == 64 && memcmp(bytes, zeros, 64) != 0);
    CHECK(getrandom(zeros, 64, 0) == 64 && memcmp(bytes, zeros, 64) != 0);
    CHECK(getrandom(zeros, 16, GRND_NONBLOCK | GRND_RANDOM) == 16);
    CHECK(getentropy(zeros, 32) == 0);
    FAILS(getrandom(zeros, 16, 0x80), EINVAL);
    puts("devices behave");
}
