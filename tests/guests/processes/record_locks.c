// Record locks belong to the process: not inherited, gone when any descriptor of the file is closed, or with the process.
#include "processes.h"

static struct flock range(short type, off_t from, off_t length) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
}

static int try(int fd, short type, off_t from, off_t length) {
    struct flock lock = range(type, from, length);
    return fcntl(fd, F_SETLK, &lock);
}

int main(void) {
    turn go = make_turn(), ready = make_turn();
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    pid_t parent = getpid();
    CHECK(try(fd, F_WRLCK, 0, 10) == 0 && try(fd, F_RDLCK, 20, 10) == 0);
    FINE(CHILD(FAILS(try(fd, F_WRLCK, 5, 1), EAGAIN); FAILS(try(fd, F_RDLCK, 0, 0), EAGAIN);
               CHECK(try(fd, F_WRLCK, 10, 10) == 0 && try(fd, F_RDLCK, 20, 5) == 0);
               FAILS(try(fd, F_WRLCK, 20, 1), EAGAIN); struct flock lock = range(F_WRLCK, 0, 0);
               CHECK(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == parent);
               CHECK(lock.l_start == 0 && lock.l_len == 10)));
    // The child's locks are gone with it.
    CHECK(try(fd, F_WRLCK, 0, 0) == 0);
    pid_t pid = CHILD(give(&ready); struct flock lock = range(F_WRLCK, 3, 3); CHECK(fcntl(fd, F_SETLKW, &lock) == 0);
                      puts("child has it"));
    await(&ready);
    puts("parent lets go");
    CHECK(fflush(stdout) == 0 && try(fd, F_UNLCK, 0, 0) == 0);
    FINE(pid);
    CHECK(try(fd, F_WRLCK, 0, 0) == 0);
    int other = open("file", O_RDONLY);
    CHECK(close(other) == 0);
    FINE(CHILD(CHECK(try(fd, F_WRLCK, 0, 0) == 0)));
    // One that dies holding a lock.
    pid = CHILD(CHECK(try(fd, F_WRLCK, 0, 0) == 0); give(&ready); for (;;) pause());
    await(&ready);
    FAILS(try(fd, F_RDLCK, 0, 1), EAGAIN);
    CHECK(kill(pid, SIGKILL) == 0 && WTERMSIG(reap(pid)) == SIGKILL);
    CHECK(try(fd, F_RDLCK, 0, 1) == 0);
    (void)go;
}
