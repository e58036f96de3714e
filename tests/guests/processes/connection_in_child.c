// A connection is open as long as one process has it open.
#include "processes.h"
#include <sys/socket.h>

int main(void) {
    int ends[2];
    char byte;
    turn go = make_turn();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = CHILD(close(ends[0]); await(&go); write_all(ends[1], "x"));
    CHECK(close(ends[1]) == 0);
    FAILS(recv(ends[0], &byte, 1, MSG_DONTWAIT), EAGAIN);
    give(&go);
    CHECK(recv(ends[0], &byte, 1, 0) == 1 && byte == 'x');
    CHECK(recv(ends[0], &byte, 1, 0) == 0);
    FINE(pid);
    // shutdown is for all who have it.
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    FINE(CHILD(CHECK(shutdown(ends[1], SHUT_RDWR) == 0)));
    CHECK(recv(ends[0], &byte, 1, 0) == 0);
    FAILS(send(ends[1], "x", 1, MSG_NOSIGNAL), EPIPE);
    puts("closed by the last");
}
