// Two processes that wait for each other's record locks: the second to wait is told EDEADLK.
#include "processes.h"

static int take(int fd, off_t at) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_SETLKW, &lock);
}

int main(void) {
    turn locked = make_turn(), waiting = make_turn();
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(take(fd, 0) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        CHECK(take(fd, 1) == 0);
        give(&locked);
        int result = take(fd, 0);
        if (result == -1) {
            CHECK(errno == EDEADLK);
            _exit(35);
        }
        _exit(1);
    }
    await(&locked);
    int result = take(fd, 1);
    // One of the two was refused; which one is a matter of who came last.
    if (result == -1) {
        CHECK(errno == EDEADLK);
        struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
        CHECK(fcntl(fd, F_SETLK, &all) == 0);
        CHECK(exit_of(pid) == 1);
    } else {
        CHECK(exit_of(pid) == 35);
    }
    (void)waiting;
    puts("one was refused");
}
