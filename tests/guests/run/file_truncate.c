// truncate and ftruncate shrink and grow (with zeros); O_TRUNC empties; offsets stay where they were.
#include "guest.h"

static long size_of(const char *name) {
    struct stat status;
    CHECK(stat(name, &status) == 0);
    return (long)status.st_size;
}

int main(void) {
    char text[16];
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    write_all(fd, "0123456789");
    CHECK(ftruncate(fd, 4) == 0 && lseek(fd, 0, SEEK_CUR) == 10);
    printf("shrunk %ld\n", size_of("file"));
    CHECK(truncate("file", 8) == 0 && pread(fd, text, 16, 0) == 8 && memcmp(text, "0123\0\0\0\0", 8) == 0);
    printf("grown %ld\n", size_of("file"));
    write_all(fd, "AB");
    printf("written past the end %ld\n", size_of("file"));
    FAILS(ftruncate(fd, -1), EINVAL);
    FAILS(truncate("missing", 0), ENOENT);
    FAILS(truncate(".", 0), EISDIR);
    int again = open("file", O_WRONLY | O_TRUNC);
    CHECK(again >= 0);
    printf("emptied %ld\n", size_of("file"));
    FAILS(ftruncate(open("file", O_RDONLY), 0), EINVAL);
}
