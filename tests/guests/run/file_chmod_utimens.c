// chmod and fchmod, utimensat and futimens with UTIME_OMIT, and access afterwards.
#include "guest.h"

int main(void) {
    struct stat status;
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && chmod("file", 0751) == 0 && stat("file", &status) == 0);
    printf("%o\n", status.st_mode & 07777);
    CHECK(fchmod(fd, 0400) == 0 && fchmodat(AT_FDCWD, "file", 0640, 0) == 0 && fstat(fd, &status) == 0);
    printf("%o\n", status.st_mode & 07777);
    struct timespec times[2] = {{1000000000, 5}, {1200000000, 7}};
    CHECK(utimensat(AT_FDCWD, "file", times, 0) == 0 && stat("file", &status) == 0);
    printf("atime %ld mtime %ld.%ld\n", (long)status.st_atim.tv_sec, (long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 1300000000;
    CHECK(futimens(fd, times) == 0 && stat("file", &status) == 0);
    printf("atime %ld mtime %ld.%ld\n", (long)status.st_atim.tv_sec, (long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    CHECK(access("file", R_OK | W_OK) == 0);
    FAILS(access("file", X_OK), EACCES);
    FAILS(access("missing", R_OK), ENOENT);
    FAILS(faccessat(AT_FDCWD, "file", 0x80, 0), EINVAL);
    FAILS(chmod("missing", 0), ENOENT);
    CHECK(chown("file", getuid(), getgid()) == 0 && fchown(fd, -1, -1) == 0);
}
