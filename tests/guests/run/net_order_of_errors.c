// Which of several errors a call tells: the kernel's order.
#include "guest.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { TOO_LONG = 1 << 20, LATER_ARGUMENT = 0x8905 };
static char many[TOO_LONG];

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    // Not known to the compiler, which would warn.
    void *volatile nowhere = (void *)1;
    struct sockaddr_un name = {AF_UNIX, "socket"}, none = {AF_UNIX, "none/x"}, any = {AF_UNIX, ""};
    socklen_t shortest = sizeof(sa_family_t);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&name, sizeof name) == 0 && listen(listener, 1) == 0);
    // The file is made before it shows that there is a name already.
    FAILS(bind(listener, (void *)&name, sizeof name), EADDRINUSE);
    FAILS(bind(listener, (void *)&none, sizeof none), ENOENT);
    CHECK(bind(listener, (void *)&any, shortest) == 0);
    // A datagram of a Unix socket is made before its receiver is looked for.
    int unix_datagrams = socket(AF_UNIX, SOCK_DGRAM, 0);
    FAILS(sendto(unix_datagrams, many, TOO_LONG, 0, (void *)&name, sizeof name), EMSGSIZE);
    FAILS(sendto(unix_datagrams, nowhere, 5, 0, (void *)&none, sizeof none), EFAULT);
    FAILS(sendto(unix_datagrams, many, 5, 0, (void *)&name, sizeof name), EPROTOTYPE);
    FAILS(sendto(unix_datagrams, many, 5, MSG_OOB, (void *)&name, sizeof name), EOPNOTSUPP);
    FAILS(write(unix_datagrams, nowhere, TOO_LONG), EMSGSIZE);
    // UDP.
    int udp = socket(AF_INET, SOCK_DGRAM, 0), udp6 = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, unspecified = {.sin_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    CHECK(bind(udp, (void *)&address, size) == 0 && getsockname(udp, (void *)&address, &size) == 0);
    FAILS(sendto(udp, many, 5, 0, (void *)&unspecified, size), EINVAL);
    FAILS(write(udp, nowhere, 70000), EMSGSIZE);
    FAILS(write(udp6, nowhere, 70000), EDESTADDRREQ);
    CHECK(connect(udp, (void *)&address, size) == 0 && shutdown(udp, SHUT_WR) == 0);
    FAILS(write(udp, many, 5), EPIPE);
    // What a socket does not know may be meant for an interface.
    FAILS(ioctl(udp, LATER_ARGUMENT, nowhere), EFAULT);
    char request[64] = {0};
    FAILS(ioctl(udp, LATER_ARGUMENT, request), ENOTTY);
    // A packet needs a connection, whatever is wrong with it.
    int packets = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    FAILS(sendto(packets, many, TOO_LONG, 0, NULL, 0), ENOTCONN);
    // The flag for 32 bits.
    FAILS(sendmmsg(0, NULL, 0, (int)0x80000000), EINVAL);
    FAILS(recvmmsg(0, NULL, 0, (int)0x80000000, NULL), EINVAL);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, udp, &event) == 0);
    event.events = EPOLLEXCLUSIVE | EPOLLONESHOT;
    FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, udp, &event), EINVAL);
    CHECK(unlink("socket") == 0);
    puts("as the kernel");
    return 0;
}
