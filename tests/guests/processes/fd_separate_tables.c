// What one process closes or opens, the other does not notice; numbers are given anew in each.
#include "processes.h"

int main(void) {
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    FINE(CHILD(CHECK(close(fd) == 0); CHECK(open("/dev/null", O_RDONLY) == fd); CHECK(dup2(fd, 50) == 50)));
    write_all(fd, "still open\n");
    FAILS(fcntl(50, F_GETFD), EBADF);
    int next = dup(fd);
    CHECK(close(next) == 0);
    FINE(CHILD(CHECK(dup(fd) == next)));
    FINE(CHILD(CHECK(close(1) == 0); FAILS(write(1, "x", 1), EBADF)));
    FINE(CHILD(CHECK(close_range(3, 1000, 0) == 0); FAILS(fcntl(fd, F_GETFD), EBADF)));
    CHECK(fcntl(fd, F_GETFD) == 0);
    // The file goes with its last descriptor, in whatever process.
    turn go = make_turn();
    pid_t pid = CHILD(await(&go); char text[6]; CHECK(pread(fd, text, 5, 0) == 5));
    CHECK(close(fd) == 0 && unlink("file") == 0);
    give(&go);
    FINE(pid);
    puts("tables of their own");
}
