// Two processes wait for each other's record locks: one of them is refused.
// outcomes: "child" "none" "parent"
#include "processes.h"

static int take(int fd, off_t at) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_SETLKW, &lock);
}

int main(void) {
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    pid_t pid = CHILD(CHECK(take(fd, 1) == 0); _exit(take(fd, 0) == -1));
    CHECK(take(fd, 0) == 0);
    int refused = take(fd, 1) == -1;
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    CHECK(fcntl(fd, F_SETLK, &all) == 0);
    int other = exit_of(pid);
    CHECK(unlink("file") == 0);
    write_all(1, refused ? "parent" : other ? "child" : "none");
}
