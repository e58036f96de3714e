// How ioctl behaves: FIONBIO and FIOCLEX change what fcntl sees, a terminal question to a pipe is ENOTTY.
#include "guest.h"
#include <sys/ioctl.h>
#include <termios.h>

int main(void) {
    int ends[2], on = 1, available = -1;
    struct winsize size;
    CHECK(pipe(ends) == 0 && ioctl(ends[0], FIONBIO, &on) == 0 && (fcntl(ends[0], F_GETFL) & O_NONBLOCK));
    CHECK(ioctl(ends[0], FIOCLEX) == 0 && fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
    CHECK(ioctl(ends[0], FIONCLEX) == 0 && fcntl(ends[0], F_GETFD) == 0);
    write_all(ends[1], "four");
    CHECK(ioctl(ends[0], FIONREAD, &available) == 0 && available == 4);
    FAILS(ioctl(ends[0], TIOCGWINSZ, &size), ENOTTY);
    FAILS(ioctl(77, FIONREAD, &available), EBADF);
    puts("ioctl");
}
