// A call that has moved part of its bytes when the connection breaks tells of those; the next one tells of the break.
#include "net.h"

static int ends[2];

static void *resets(void *unused) {
    (void)unused;
    struct linger now = {1, 0};
    CHECK(write(ends[1], "abc", 3) == 3);
    CHECK(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    CHECK(close(ends[1]) == 0);
    return NULL;
}

static void connect_ends(void) {
    int port, listener = listen_anywhere(&port);
    ends[0] = connect_to(port);
    CHECK((ends[1] = accept(listener, NULL, NULL)) >= 0);
    CHECK(close(listener) == 0);
}

static int signalled;

static void count(int number) {
    (void)number;
    signalled++;
}

static void *takes_a_little(void *unused) {
    (void)unused;
    char some[16];
    CHECK(read(ends[1], some, sizeof some) > 0);
    CHECK(close(ends[1]) == 0);
    return NULL;
}

int main(void) {
    static char much[16 << 20];
    char buffer[8];
    connect_ends();
    pthread_t other = start(resets, NULL);
    CHECK(recv(ends[0], buffer, sizeof buffer, MSG_WAITALL) == 3);
    FAILS(recv(ends[0], buffer, sizeof buffer, 0), ECONNRESET);
    CHECK(recv(ends[0], buffer, sizeof buffer, 0) == 0);
    join(other);
    CHECK(close(ends[0]) == 0);

    signal(SIGPIPE, count);
    for (int how = 0; how < 2; how++) {
        connect_ends();
        other = start(takes_a_little, NULL);
        ssize_t sent = how ? send(ends[0], much, sizeof much, 0) : write(ends[0], much, sizeof much);
        CHECK(sent > 0 && sent < (ssize_t)sizeof much);
        CHECK(signalled == 0);
        FAILS(write(ends[0], much, 1), ECONNRESET);
        CHECK(signalled == 0);
        FAILS(write(ends[0], much, 1), EPIPE);
        CHECK(signalled == 1);
        signalled = 0;
        join(other);
        CHECK(close(ends[0]) == 0);
    }
    puts("told in turn");
    return 0;
}
