// A private mapping does not change its file, a shared one does after msync, and sees what was written before.
#include "guest.h"

int main(void) {
    char text[8] = {0};
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    write_all(fd, "original");
    CHECK(ftruncate(fd, 8192) == 0);
    char *private = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(private != MAP_FAILED && memcmp(private, "original", 8) == 0);
    private[0] = 'P';
    CHECK(pread(fd, text, 1, 0) == 1 && text[0] == 'o');
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED && shared[0] == 'o' && shared[5000] == 0);
    shared[0] = 'S', shared[4096] = 'T';
    CHECK(msync(shared, 8192, MS_SYNC) == 0);
    CHECK(pread(fd, text, 1, 0) == 1 && pread(fd, text + 1, 1, 4096) == 1);
    puts(text);
    char *offset = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
    CHECK(offset != MAP_FAILED && offset[0] == 'T' && private[0] == 'P');
    CHECK(munmap(shared, 8192) == 0 && munmap(private, 8192) == 0 && close(fd) == 0 && offset[0] == 'T');
    FAILS(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 55, 0) == MAP_FAILED ? -1 : 0, EBADF);
    fd = open("file", O_RDONLY);
    FAILS(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0, EACCES);
}
