// SEEK_DATA and SEEK_HOLE: the end of the file counts as a hole, ENXIO behind it; or EINVAL where not offered.
#include "guest.h"

int main(void) {
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    write_all(fd, "data");
    off_t data = lseek(fd, 0, SEEK_DATA);
    if (data == -1) {
        CHECK(errno == EINVAL);
    } else {
        CHECK(data == 0 && lseek(fd, 0, SEEK_HOLE) == 4);
        FAILS(lseek(fd, 4, SEEK_DATA), ENXIO);
        FAILS(lseek(fd, 9, SEEK_HOLE), ENXIO);
    }
    FAILS(lseek(fd, 0, 99), EINVAL);
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(lseek(ends[0], 0, SEEK_CUR), ESPIPE);
    FAILS(lseek(777, 0, SEEK_SET), EBADF);
    puts("seeks answered");
}
