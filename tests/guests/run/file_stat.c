// stat, fstat, lstat, fstatat and statx agree about type, size, mode, links and identity.
#include "guest.h"

int main(void) {
    struct stat a, b, c;
    struct statx x;
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    write_all(fd, "12345");
    CHECK(stat("file", &a) == 0 && fstat(fd, &b) == 0 && fstatat(AT_FDCWD, "file", &c, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(a.st_ino == b.st_ino && b.st_ino == c.st_ino && a.st_dev == b.st_dev && a.st_size == 5 && c.st_size == 5);
    CHECK(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &x) == 0 && x.stx_size == 5 && x.stx_ino == a.st_ino);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0 && x.stx_mode == a.st_mode);
    CHECK(fstatat(fd, "", &c, AT_EMPTY_PATH) == 0 && c.st_ino == a.st_ino);
    CHECK(a.st_uid == geteuid() && a.st_nlink == 1 && S_ISREG(a.st_mode));
    printf("mode %o size %ld blksize>0 %d\n", a.st_mode, (long)a.st_size, a.st_blksize > 0);
    CHECK(stat(".", &a) == 0 && S_ISDIR(a.st_mode));
    CHECK(stat("/dev/null", &a) == 0 && S_ISCHR(a.st_mode));
    int ends[2];
    CHECK(pipe(ends) == 0 && fstat(ends[0], &a) == 0 && S_ISFIFO(a.st_mode));
    FAILS(stat("missing", &a), ENOENT);
    FAILS(stat("file/x", &a), ENOTDIR);
    FAILS(fstat(99, &a), EBADF);
    FAILS(stat("file", (struct stat *)8), EFAULT);
}
