// What is left of TCP sockets that were shut down: who sends to one that takes no more, and who waits for one that listens no more.
#include "net.h"
#include <poll.h>

static int ends[2];

static void connect_ends(void) {
    int port, listener = listen_anywhere(&port);
    ends[0] = connect_to(port);
    CHECK((ends[1] = accept(listener, NULL, NULL)) >= 0);
    CHECK(close(listener) == 0);
}

static short events_of(int fd, short awaited) {
    struct pollfd seen = {fd, awaited, 0};
    CHECK(poll(&seen, 1, -1) == 1);
    return seen.revents;
}

int main(void) {
    char buffer[4];
    signal(SIGPIPE, SIG_IGN);

    // It only reads no more: what is sent comes in all the same.
    connect_ends();
    CHECK(shutdown(ends[0], SHUT_RD) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(write(ends[1], "x", 1) == 1);
    printf("half: %x\n", events_of(ends[0], POLLIN | POLLRDHUP));

    // It neither reads nor writes: it answers with a reset.
    connect_ends();
    CHECK(shutdown(ends[0], SHUT_RDWR) == 0);
    CHECK(events_of(ends[1], POLLRDHUP) & POLLRDHUP);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(events_of(ends[1], 0) & POLLERR);
    printf("whole: %x %x\n", events_of(ends[1], POLLIN | POLLRDHUP), events_of(ends[0], POLLIN | POLLRDHUP));
    FAILS(write(ends[1], "x", 1), EPIPE);
    CHECK(read(ends[1], buffer, 1) == 0);
    FAILS(read(ends[0], buffer, 1), ECONNRESET);
    CHECK(read(ends[0], buffer, 1) == 0);

    // It listened, and somebody waits to be accepted.
    for (int how = SHUT_RD; how <= SHUT_RDWR; how += SHUT_RDWR) {
        int port, listener = listen_anywhere(&port);
        int waiting = connect_to(port);
        CHECK(shutdown(listener, how) == 0);
        FAILS(read(waiting, buffer, 1), ECONNRESET);
        FAILS(accept(listener, NULL, NULL), EINVAL);
        struct sockaddr_in address = at_port(port);
        FAILS(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
        printf("listener: %x\n", events_of(listener, POLLIN | POLLOUT));
    }
    return 0;
}
