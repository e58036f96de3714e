// chdir, fchdir, getcwd, openat relative to a directory, and a path that goes up again.
#include "guest.h"

int main(void) {
    char start_dir[PATH_MAX], here[PATH_MAX];
    CHECK(getcwd(start_dir, sizeof start_dir) && start_dir[0] == '/');
    CHECK(mkdir("a", 0755) == 0 && mkdir("a/b", 0755) == 0);
    int top = open(".", O_RDONLY | O_DIRECTORY), a = open("a", O_PATH | O_DIRECTORY);
    CHECK(top >= 0 && a >= 0 && chdir("a/b") == 0 && getcwd(here, sizeof here));
    printf("%s\n", here + strlen(start_dir));
    int fd = openat(a, "b/../made", O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && access("../made", F_OK) == 0 && faccessat(top, "a/made", F_OK, 0) == 0);
    CHECK(fchdir(a) == 0 && getcwd(here, sizeof here));
    printf("%s\n", here + strlen(start_dir));
    CHECK(chdir("..") == 0 && getcwd(here, sizeof here) && strcmp(here, start_dir) == 0);
    CHECK(mkdirat(a, "c", 0755) == 0 && unlinkat(a, "c", AT_REMOVEDIR) == 0);
    CHECK(renameat(a, "made", top, "up") == 0 && symlinkat("up", a, "link") == 0 && linkat(top, "up", a, "hard", 0) == 0);
    FAILS(openat(fd, "x", O_RDONLY), ENOTDIR);
    FAILS(openat(-7, "x", O_RDONLY), EBADF);
    FAILS(chdir("missing"), ENOENT);
    FAILS(chdir("up"), ENOTDIR);
    FAILS(getcwd(here, 2) ? 0 : -1, ERANGE);
    char *resolved = realpath("a/b/../hard", NULL);
    CHECK(resolved);
    printf("%s\n", resolved + strlen(start_dir));
}
