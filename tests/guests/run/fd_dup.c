// dup, dup2, dup3 and F_DUPFD: lowest free number, shared offset and status flags, separate close-on-exec flag.
#include "guest.h"

int main(void) {
    int fd = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 3);
    write_all(fd, "0123456789");
    int copy = dup(fd), high = fcntl(fd, F_DUPFD, 50), cloexec = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    CHECK(copy == fd + 1 && high == 50 && cloexec == 51);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(copy, F_GETFD) == 0 && fcntl(cloexec, F_GETFD) == FD_CLOEXEC);
    CHECK(lseek(high, 3, SEEK_SET) == 3);
    char byte;
    CHECK(read(copy, &byte, 1) == 1 && byte == '3');
    CHECK(lseek(fd, 0, SEEK_CUR) == 4);
    CHECK(fcntl(copy, F_SETFL, O_APPEND) == 0 && (fcntl(fd, F_GETFL) & O_APPEND));
    CHECK(dup2(fd, 60) == 60 && dup2(fd, fd) == fd && dup3(fd, 61, O_CLOEXEC) == 61);
    CHECK(fcntl(61, F_GETFD) == FD_CLOEXEC);
    FAILS(dup3(fd, fd, 0), EINVAL);
    FAILS(dup2(999, 5), EBADF);
    FAILS(dup(-1), EBADF);
    CHECK(close(fd) == 0);
    FAILS(close(fd), EBADF);
    write_all(60, "end");
    struct stat status;
    CHECK(fstat(high, &status) == 0);
    printf("size %ld\n", (long)status.st_size);
    CHECK(dup(high) == fd);
    puts("lowest number reused");
}
