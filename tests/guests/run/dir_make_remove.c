// mkdir, rmdir and their errors; a directory that is not empty stays.
#include "guest.h"

int main(void) {
    struct stat status;
    CHECK(mkdir("d", 0750) == 0 && mkdir("d/e", 0700) == 0);
    FAILS(mkdir("d", 0755), EEXIST);
    FAILS(mkdir("x/y", 0755), ENOENT);
    FAILS(rmdir("d"), ENOTEMPTY);
    FAILS(rmdir("missing"), ENOENT);
    int fd = open("d/file", O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0);
    FAILS(rmdir("d/file"), ENOTDIR);
    FAILS(mkdir("d/file/x", 0755), ENOTDIR);
    FAILS(rmdir("d/."), EINVAL);
    CHECK(stat("d", &status) == 0);
    printf("mode %o\n", status.st_mode & 07777);
    CHECK(unlink("d/file") == 0 && rmdir("d/e") == 0 && rmdir("d") == 0);
    FAILS(stat("d", &status), ENOENT);
    puts("removed");
}
