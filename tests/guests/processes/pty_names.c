// Names of pseudo-terminals: ptsname, ttyname, /dev/tty, both ends from openpty, and what is left when the master is closed.
#include "terminals.h"

int main(void) {
    int locked = posix_openpt(O_RDWR | O_NOCTTY);
    char name[64];
    CHECK(ptsname_r(locked, name, sizeof name) == 0 && strncmp(name, "/dev/pts/", 9) == 0);
    FAILS(open(name, O_RDWR | O_NOCTTY), EIO);
    CHECK(unlockpt(locked) == 0);
    int slave = open(name, O_RDWR | O_NOCTTY);
    CHECK(slave >= 0 && strcmp(ttyname(slave), name) == 0);
    struct stat by_name, by_fd;
    CHECK(stat(name, &by_name) == 0 && fstat(slave, &by_fd) == 0);
    CHECK(S_ISCHR(by_fd.st_mode) && by_name.st_ino == by_fd.st_ino && by_name.st_rdev == by_fd.st_rdev);
    int second, other;
    char other_name[64];
    CHECK(openpty(&second, &other, other_name, NULL, NULL) == 0);
    CHECK(strcmp(name, other_name) != 0 && strcmp(ttyname(other), other_name) == 0);
    // A session finds its terminal by a name of its own.
    FINE(CHILD(CHECK(setsid() == getpid()); FAILS(open("/dev/tty", O_RDWR), ENXIO);
               CHECK(ioctl(other, TIOCSCTTY, 0) == 0); int own = open("/dev/tty", O_RDWR); CHECK(own >= 0);
               write_all(own, "found\n"); CHECK(tcgetsid(own) == getpid() && tcgetpgrp(own) == getpgrp());
               FAILS(ioctl(slave, TIOCSCTTY, 0), EPERM)));
    expect(second, "found\r\n");
    CHECK(close(locked) == 0);
    FAILS(open(name, O_RDWR | O_NOCTTY), ENOENT);
    char byte;
    CHECK(read(slave, &byte, 1) == 0);
    FAILS(write(slave, "x", 1), EIO);
    // The other side of a master: EIO once nobody has it open.
    CHECK(close(other) == 0);
    FAILS(read(second, &byte, 1), EIO);
    struct pollfd end = {second, POLLIN, 0};
    CHECK(poll(&end, 1, 0) == 1 && end.revents & POLLHUP);
    puts("names");
}
