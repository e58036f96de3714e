// TCP Fast Open: sending with MSG_FASTOPEN connects first, waits or says that it is under way; its options are checked.
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

static struct sockaddr_in address = {.sin_family = AF_INET};
static int listener;

static int stream(int flags) {
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    CHECK(fd >= 0);
    return fd;
}

static ssize_t send_fast(int fd, const char *text) {
    return sendto(fd, text, strlen(text), MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address);
}

// What the next connection said so far.
static void show(void) {
    char text[16] = {0};
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    puts(text);
}

static short events(int fd, short wanted) {
    struct pollfd polled = {fd, wanted, 0};
    CHECK(poll(&polled, 1, 10000) == 1);
    return polled.revents;
}

static void that_waits(void) {
    int fd = stream(0);
    FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, NULL, 0), EINVAL);
    FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, 4), EINVAL);
    CHECK(send_fast(fd, "sendto") == 6);
    FAILS(send_fast(fd, "again"), EISCONN);
    FAILS(sendto(fd, "x", 1, MSG_FASTOPEN, NULL, 0), EISCONN);
    show();
    struct iovec parts[] = {{"send", 4}, {"msg", 3}};
    struct msghdr message = {&address, sizeof address, parts, 2, NULL, 0, 0};
    CHECK(sendmsg(stream(0), &message, MSG_FASTOPEN) == 7);
    show();
}

static void that_does_not_wait(void) {
    int fd = stream(SOCK_NONBLOCK);
    FAILS(send_fast(fd, "lost"), EINPROGRESS);
    CHECK(events(fd, POLLOUT) == POLLOUT);
    CHECK(send_fast(fd, "later") == 5);
    FAILS(send_fast(fd, "again"), EISCONN);
    show();
}

static void options(void) {
    int fd = stream(0), one = 1, two = 2;
    FAILS(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &two, sizeof two), EINVAL);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && write(fd, "connect", 7) == 7);
    FAILS(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one), EINVAL);
    FAILS(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &one, sizeof one), EINVAL);
    CHECK(setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN, &two, sizeof two) == 0);
    show();
}

static void to_nobody(void) {
    CHECK(close(listener) == 0);
    FAILS(send_fast(stream(0), "x"), ECONNREFUSED);
    int fd = stream(SOCK_NONBLOCK);
    FAILS(send_fast(fd, "x"), EINPROGRESS);
    CHECK(events(fd, POLLOUT) & POLLERR);
    address.sin_family = AF_UNSPEC;
    FAILS(send_fast(stream(0), "x"), EOPNOTSUPP);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && send(pair[0], "x", 1, MSG_FASTOPEN) == 1);
}

int main(void) {
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = stream(0);
    CHECK(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    that_waits();
    that_does_not_wait();
    options();
    to_nobody();
}
