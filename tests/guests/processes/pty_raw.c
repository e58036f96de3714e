// A pseudo-terminal in raw mode: bytes as they are; settings and size are kept, whichever side asks.
#include "terminals.h"

int main(void) {
    terminal t = make_terminal();
    struct termios settings;
    CHECK(tcgetattr(t.slave, &settings) == 0);
    CHECK(settings.c_lflag & ICANON && settings.c_lflag & ECHO && settings.c_oflag & OPOST && settings.c_cc[VEOF] == 4);
    cfmakeraw(&settings);
    CHECK(tcsetattr(t.slave, TCSANOW, &settings) == 0);
    struct termios seen;
    CHECK(tcgetattr(t.master, &seen) == 0 && seen.c_lflag == settings.c_lflag && seen.c_cc[VMIN] == 1);
    write_all(t.master, "a\r\003\177");
    char bytes[16];
    CHECK(read(t.slave, bytes, sizeof bytes) == 4 && memcmp(bytes, "a\r\003\177", 4) == 0);
    write_all(t.slave, "x\n");
    CHECK(read(t.master, bytes, sizeof bytes) == 2 && memcmp(bytes, "x\n", 2) == 0);
    settings.c_cc[VMIN] = 0, settings.c_cc[VTIME] = 0;
    CHECK(tcsetattr(t.slave, TCSANOW, &settings) == 0 && read(t.slave, bytes, sizeof bytes) == 0);
    settings.c_cc[VTIME] = 1;
    CHECK(tcsetattr(t.slave, TCSANOW, &settings) == 0 && read(t.slave, bytes, sizeof bytes) == 0);
    settings.c_cc[VMIN] = 3, settings.c_cc[VTIME] = 0;
    CHECK(tcsetattr(t.slave, TCSANOW, &settings) == 0);
    pid_t pid = CHILD(CHECK(read(t.slave, bytes, sizeof bytes) == 3));
    write_all(t.master, "ab");
    write_all(t.master, "c");
    FINE(pid);
    struct winsize size = {24, 80, 0, 0}, got;
    CHECK(ioctl(t.master, TIOCSWINSZ, &size) == 0 && ioctl(t.slave, TIOCGWINSZ, &got) == 0);
    printf("%d rows, %d columns, terminal %d, pipe %d\n", got.ws_row, got.ws_col, isatty(t.slave), isatty(1));
}
