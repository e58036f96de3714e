// flock conflicts between open files, record locks of one process do not; F_GETLK and OFD locks.
#include "guest.h"
#include <sys/file.h>

int main(void) {
    int a = open("file", O_RDWR | O_CREAT, 0644), b = open("file", O_RDWR);
    CHECK(flock(a, LOCK_EX) == 0);
    FAILS(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    FAILS(flock(b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    CHECK(flock(a, LOCK_SH) == 0 && flock(b, LOCK_SH | LOCK_NB) == 0 && flock(a, LOCK_UN) == 0 && close(b) == 0);
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    CHECK(fcntl(a, F_SETLK, &record) == 0);
    b = open("file", O_RDWR);
    record.l_type = F_WRLCK;
    CHECK(fcntl(b, F_GETLK, &record) == 0 && record.l_type == F_UNLCK);
    record.l_type = F_UNLCK;
    CHECK(fcntl(a, F_SETLKW, &record) == 0);
    struct flock ofd = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    if (fcntl(a, F_OFD_SETLK, &ofd) == 0) {
        FAILS(fcntl(b, F_OFD_SETLK, &ofd), EAGAIN);
        ofd.l_start = 10;
        CHECK(fcntl(b, F_OFD_SETLK, &ofd) == 0);
    } else {
        CHECK(errno == EINVAL);
    }
    puts("locks conflict where they should");
}
