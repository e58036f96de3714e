// An IPv6 wildcard listener gets IPv4 connections too; options are told back.
#include "net.h"
#include <netinet/tcp.h>

static int option(int fd, int level, int name) {
    int value = -1;
    CHECK(getsockopt(fd, level, name, &value, &(socklen_t){sizeof value}) == 0);
    return value;
}

int main(void) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, from;
    socklen_t length = sizeof any;
    int one = 1, listener = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(option(listener, IPPROTO_IPV6, IPV6_V6ONLY) == 0);
    CHECK(bind(listener, (struct sockaddr *)&any, sizeof any) == 0);
    CHECK(listen(listener, 4) == 0 && option(listener, SOL_SOCKET, SO_ACCEPTCONN) == 1);
    CHECK(getsockname(listener, (struct sockaddr *)&any, &length) == 0 && length == sizeof any);
    int fd = connect_to(ntohs(any.sin6_port));
    length = sizeof from;
    int accepted = accept(listener, (struct sockaddr *)&from, &length);
    CHECK(accepted >= 0 && length == sizeof from);
    CHECK(from.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&from.sin6_addr));

    int fd6 = socket(AF_INET6, SOCK_STREAM, 0);
    any.sin6_addr = in6addr_loopback;
    CHECK(connect(fd6, (struct sockaddr *)&any, sizeof any) == 0);
    CHECK((accepted = accept(listener, NULL, NULL)) >= 0);
    CHECK(write(fd6, "six", 3) == 3);
    char buffer[4];
    CHECK(read(accepted, buffer, 4) == 3);

    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    printf("%d %d %d %d\n", option(fd, IPPROTO_TCP, TCP_NODELAY), option(fd, SOL_SOCKET, SO_KEEPALIVE),
           option(fd, SOL_SOCKET, SO_TYPE), option(fd, SOL_SOCKET, SO_PROTOCOL));
    struct timeval soon = {0, 10000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
    FAILS(read(fd, buffer, 1), EAGAIN);
    FAILS(setsockopt(fd, IPPROTO_TCP, 9999, &one, sizeof one), ENOPROTOOPT);
    return 0;
}
