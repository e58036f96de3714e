// What guests with a pseudo-terminal share.
#ifndef TERMINALS_H
#define TERMINALS_H
#include "processes.h"
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

typedef struct {
    int master, slave;
} terminal;

// A new one; nobody's.
static inline terminal make_terminal(void) {
    terminal made = {.master = posix_openpt(O_RDWR | O_NOCTTY)};
    CHECK(made.master >= 0 && grantpt(made.master) == 0 && unlockpt(made.master) == 0);
    made.slave = open(ptsname(made.master), O_RDWR | O_NOCTTY);
    CHECK(made.slave >= 0);
    return made;
}

// Reads as many bytes as this text has, and compares.
static inline void expect(int fd, const char *text) {
    char got[4096] = "";
    size_t done = 0;
    while (done < strlen(text)) {
        ssize_t count = read(fd, got + done, strlen(text) - done);
        CHECK(count > 0);
        done += (size_t)count;
    }
    if (strcmp(got, text) != 0) {
        fprintf(stderr, "expected \"%s\", got \"%s\"\n", text, got);
        _exit(98);
    }
}

static inline void set_local(int fd, tcflag_t on, tcflag_t off) {
    struct termios settings;
    CHECK(tcgetattr(fd, &settings) == 0);
    settings.c_lflag = (settings.c_lflag | on) & ~off;
    CHECK(tcsetattr(fd, TCSANOW, &settings) == 0);
}
#endif
