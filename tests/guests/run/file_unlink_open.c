// A file that is unlinked while open stays usable through its descriptor; the name is free for another file.
#include "guest.h"

int main(void) {
    char text[16] = {0};
    struct stat status;
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    write_all(fd, "old");
    CHECK(unlink("file") == 0);
    FAILS(access("file", F_OK), ENOENT);
    int again = open("file", O_RDWR | O_CREAT | O_EXCL, 0644);
    write_all(again, "new");
    write_all(fd, " content");
    CHECK(pread(fd, text, 16, 0) == 11);
    puts(text);
    CHECK(fstat(fd, &status) == 0 && status.st_nlink == 0 && status.st_size == 11);
    FAILS(unlink("missing"), ENOENT);
    FAILS(unlink("."), EISDIR);
    FAILS(unlinkat(AT_FDCWD, "file", AT_REMOVEDIR), ENOTDIR);
}
