// fallocate and posix_fallocate grow a file; fsync, fdatasync, sync_file_range and posix_fadvise succeed.
#include "guest.h"

int main(void) {
    struct stat status;
    int fd = open("file", O_RDWR | O_CREAT, 0644), ends[2];
    OK(posix_fallocate(fd, 0, 5000));
    CHECK(fstat(fd, &status) == 0 && status.st_size == 5000);
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 5000, 100) == -1)
        CHECK(errno == EOPNOTSUPP);
    CHECK(fstat(fd, &status) == 0);
    write_all(fd, "content");
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
    sync();
    CHECK(pipe(ends) == 0);
    FAILS(fsync(ends[0]), EINVAL);
    FAILS(fsync(-1), EBADF);
    FAILS(fallocate(fd, 0, -1, 5), EINVAL);
    printf("size %ld\n", (long)status.st_size);
}
