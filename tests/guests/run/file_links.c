// Hard links share the file and count; symbolic links are followed, read, and may loop.
#include "guest.h"

int main(void) {
    struct stat status;
    char target[32] = {0};
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    write_all(fd, "shared");
    CHECK(link("file", "hard") == 0 && stat("hard", &status) == 0);
    printf("links %ld\n", (long)status.st_nlink);
    int other = open("hard", O_RDWR);
    CHECK(other >= 0 && pwrite(other, "S", 1, 0) == 1);
    char text[8] = {0};
    CHECK(pread(fd, text, 7, 0) == 6);
    puts(text);
    CHECK(symlink("hard", "soft") == 0 && readlink("soft", target, sizeof target) == 4);
    printf("soft -> %s\n", target);
    CHECK(lstat("soft", &status) == 0 && S_ISLNK(status.st_mode) && status.st_size == 4);
    CHECK(stat("soft", &status) == 0 && S_ISREG(status.st_mode));
    CHECK(unlink("file") == 0 && stat("soft", &status) == 0 && status.st_nlink == 1);
    FAILS(link("missing", "x"), ENOENT);
    FAILS(link("hard", "soft"), EEXIST);
    FAILS(readlink("hard", target, 8), EINVAL);
    CHECK(symlink("loop", "loop") == 0);
    FAILS(stat("loop", &status), ELOOP);
    CHECK(unlink("soft") == 0 && unlink("loop") == 0 && access("hard", R_OK) == 0);
}
