// readv, writev, preadv, pwritev and their limits.
#include "guest.h"

int main(void) {
    char a[4] = {0}, b[8] = {0};
    struct iovec out[3] = {{"abc", 3}, {"", 0}, {"defgh", 5}}, in[2] = {{a, 3}, {b, 7}};
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && writev(fd, out, 3) == 8);
    CHECK(pwritev(fd, out, 1, 10) == 3 && lseek(fd, 0, SEEK_CUR) == 8);
    CHECK(lseek(fd, 1, SEEK_SET) == 1 && readv(fd, in, 2) == 10);
    printf("%s|%s\n", a, b);
    CHECK(preadv(fd, in, 2, 10) == 3 && readv(fd, in, 2) == 2);
    printf("%.3s|%.2s\n", a, a);
    volatile int too_few = -1, too_many = IOV_MAX + 1;
    FAILS(readv(fd, in, too_few), EINVAL);
    FAILS(writev(fd, out, too_many), EINVAL);
    CHECK(writev(fd, out, 0) == 0);
    CHECK(preadv2(fd, in, 1, 0, 0) == 3);
}
