// A stream socket pair: both directions, peek, waitall, shutdown, end of file, EPIPE without a signal.
#include "guest.h"
#include <sys/socket.h>

static int pair[2];

static void *echo(void *argument) {
    char text[8];
    for (ssize_t n; (n = read(pair[1], text, sizeof text)) > 0;)
        CHECK(write(pair[1], text, n) == n);
    CHECK(shutdown(pair[1], SHUT_WR) == 0);
    return argument;
}

int main(void) {
    char text[32] = {0};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pthread_t thread = start(echo, NULL);
    write_all(pair[0], "through the socket pair");
    CHECK(recv(pair[0], text, 1, MSG_PEEK) == 1 && text[0] == 't');
    CHECK(recv(pair[0], text, 23, MSG_WAITALL) == 23);
    puts(text);
    CHECK(shutdown(pair[0], SHUT_WR) == 0 && read(pair[0], text, 1) == 0);
    FAILS(send(pair[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    join(thread);
    int type;
    socklen_t length = sizeof type;
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM);
    puts("shut down");
}
