// Datagram and seqpacket pairs keep message boundaries and cut what does not fit.
#include "guest.h"
#include <sys/socket.h>

static void boundaries(int type) {
    int pair[2];
    char text[16] = {0};
    CHECK(socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, pair) == 0);
    CHECK(send(pair[0], "first", 5, 0) == 5 && send(pair[0], "second", 6, 0) == 6 && send(pair[0], "third", 5, 0) == 5);
    CHECK(recv(pair[1], text, sizeof text, 0) == 5 && memcmp(text, "first", 5) == 0);
    CHECK(recv(pair[1], text, 3, 0) == 3 && memcmp(text, "sec", 3) == 0);
    struct iovec part[2] = {{text, 2}, {text + 2, 10}};
    struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
    CHECK(recvmsg(pair[1], &message, 0) == 5 && memcmp(text, "third", 5) == 0 && !(message.msg_flags & MSG_TRUNC));
    FAILS(recv(pair[1], text, sizeof text, 0), EAGAIN);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
}

int main(void) {
    boundaries(SOCK_DGRAM);
    puts("datagrams");
    boundaries(SOCK_SEQPACKET);
    puts("sequenced packets");
}
