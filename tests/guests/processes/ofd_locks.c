// Locks of open descriptions: inherited, and not given up by closing another descriptor.
#include "processes.h"

static int try(int fd, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

int main(void) {
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(try(fd, F_WRLCK) == 0);
    FINE(CHILD(CHECK(try(fd, F_WRLCK) == 0); int own = open("file", O_RDWR); FAILS(try(own, F_RDLCK), EAGAIN);
               struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
               CHECK(fcntl(own, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == -1)));
    CHECK(close(open("file", O_RDONLY)) == 0);
    FINE(CHILD(int own = open("file", O_RDWR); FAILS(try(own, F_RDLCK), EAGAIN)));
    // A child keeps the description, and with it the lock.
    turn go = make_turn();
    pid_t pid = CHILD(await(&go));
    CHECK(close(fd) == 0);
    fd = open("file", O_RDWR);
    FAILS(try(fd, F_RDLCK), EAGAIN);
    give(&go);
    FINE(pid);
    CHECK(try(fd, F_RDLCK) == 0);
    puts("locks of descriptions");
}
