// A pseudo-terminal in canonical mode: echo, one line at a time, erasing, the end of the file, \n as \r\n.
#include "terminals.h"

int main(void) {
    terminal t = make_terminal();
    write_all(t.master, "hello\rwor");
    expect(t.master, "hello\r\nwor");
    char line[64];
    CHECK(read(t.slave, line, sizeof line) == 6 && memcmp(line, "hello\n", 6) == 0);
    int count;
    CHECK(ioctl(t.slave, FIONREAD, &count) == 0 && count == 0);
    write_all(t.master, "x\177ld\n");
    expect(t.master, "x\b \bld\r\n");
    expect(t.slave, "world\n");
    write_all(t.master, "two words\027kept\n");
    expect(t.slave, "two kept\n");
    write_all(t.master, "all gone\025this\n");
    expect(t.slave, "this\n");
    // An end of file: what was typed so far, then nothing.
    write_all(t.master, "part\004");
    CHECK(read(t.slave, line, sizeof line) == 4);
    write_all(t.master, "\004");
    CHECK(read(t.slave, line, sizeof line) == 0);
    // A line that is longer than what is asked for is read in parts.
    write_all(t.master, "abcdef\nnext\n");
    CHECK(read(t.slave, line, 4) == 4 && read(t.slave, line, sizeof line) == 3 && line[2] == '\n');
    expect(t.slave, "next\n");
    set_local(t.slave, 0, ECHO);
    CHECK(tcflush(t.slave, TCIOFLUSH) == 0);
    while (poll(&(struct pollfd){t.master, POLLIN, 0}, 1, 0) == 1)
        CHECK(read(t.master, line, sizeof line) > 0);
    write_all(t.master, "secret\n");
    expect(t.slave, "secret\n");
    CHECK(poll(&(struct pollfd){t.master, POLLIN, 0}, 1, 0) == 0);
    write_all(t.slave, "out\n");
    expect(t.master, "out\r\n");
    puts("lines");
}
