// After chroot paths begin at another directory, from which .. leads nowhere. Natively only root may, others get EPERM.
#include "guest.h"

int main(void) {
    CHECK(mkdir("jail", 0755) == 0 && mkdir("jail/inner", 0755) == 0);
    int fd = open("jail/inner/file", O_CREAT | O_WRONLY, 0644);
    CHECK(write(fd, "text", 4) == 4 && close(fd) == 0);
    FAILS(chroot("nowhere"), ENOENT);
    FAILS(chroot("jail/inner/file"), ENOTDIR);
    if (chroot("jail") == -1) {
        CHECK(errno == EPERM);
        puts("chroot");
        return 0;
    }
    char buffer[4096];
    CHECK(access("/inner/file", R_OK) == 0 && access("/jail", F_OK) == -1 && access("/etc", F_OK) == -1);
    CHECK(access("/../../inner/file", R_OK) == 0);
    // The working directory is still outside.
    CHECK(access("jail/inner/file", R_OK) == 0);
    CHECK(chdir("/inner") == 0 && strcmp(getcwd(buffer, sizeof buffer), "/inner") == 0);
    CHECK(chdir("../../..") == 0 && strcmp(getcwd(buffer, sizeof buffer), "/") == 0);
    CHECK(symlink("/inner/file", "link") == 0 && access("link", R_OK) == 0);
    CHECK(mkdir("/made", 0755) == 0 && rmdir("made") == 0);
    puts("chroot");
}
