// Both directions of a socketpair between two processes, with half closed and with messages.
#include "processes.h"
#include <sys/socket.h>

int main(void) {
    int ends[2];
    char text[32] = {0};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        int total = 0;
        ssize_t count;
        CHECK(close(ends[0]) == 0);
        while ((count = read(ends[1], text, sizeof text)) > 0)
            for (ssize_t i = 0; i < count; i++)
                total += text[i];
        snprintf(text, sizeof text, "%d", total);
        write_all(ends[1], text);
        _exit(0);
    }
    CHECK(close(ends[1]) == 0);
    write_all(ends[0], "abc");
    write_all(ends[0], "def");
    CHECK(shutdown(ends[0], SHUT_WR) == 0);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    puts(text);
    CHECK(read(ends[0], text, sizeof text) == 0);
    FINE(pid);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    pid = CHILD(close(ends[0]); CHECK(recv(ends[1], text, 2, 0) == 2); CHECK(recv(ends[1], text, sizeof text, 0) == 1);
                CHECK(text[0] == 'z'); CHECK(recv(ends[1], text, sizeof text, 0) == 0));
    CHECK(close(ends[1]) == 0);
    CHECK(send(ends[0], "xyyy", 4, 0) == 4 && send(ends[0], "z", 1, 0) == 1);
    CHECK(close(ends[0]) == 0);
    FINE(pid);
}
