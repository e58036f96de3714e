// Plain reading and writing at an offset that moves; reads stop at the end; wrong directions are EBADF.
#include "guest.h"

int main(void) {
    char text[32] = {0};
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    write_all(fd, "hello, ");
    write_all(fd, "world");
    CHECK(read(fd, text, 5) == 0);
    CHECK(lseek(fd, 7, SEEK_SET) == 7 && read(fd, text, 32) == 5);
    printf("%s\n", text);
    CHECK(lseek(fd, -3, SEEK_END) == 9 && write(fd, "LD!!", 4) == 4 && lseek(fd, 0, SEEK_CUR) == 13);
    FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
    CHECK(lseek(fd, 20, SEEK_SET) == 20 && write(fd, "x", 1) == 1);
    struct stat status;
    CHECK(fstat(fd, &status) == 0 && status.st_size == 21);
    memset(text, 1, sizeof text);
    CHECK(pread(fd, text, 21, 0) == 21 && text[13] == 0 && text[19] == 0 && text[20] == 'x');
    printf("%.13s\n", text);
    int read_only = open("file", O_RDONLY), write_only = open("file", O_WRONLY);
    FAILS(write(read_only, "x", 1), EBADF);
    FAILS(read(write_only, text, 1), EBADF);
    CHECK(read(read_only, text, 0) == 0);
    void *volatile nowhere = (void *)8;
    FAILS(read(read_only, nowhere, 4), EFAULT);
}
