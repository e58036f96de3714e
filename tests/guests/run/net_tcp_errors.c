// What goes wrong with TCP sockets, and how one is told.
#include "net.h"
#include <poll.h>

int main(void) {
    int port, one = 1;
    int listener = listen_anywhere(&port);
    struct sockaddr_in address = at_port(port);
    char buffer[16];
    signal(SIGPIPE, SIG_IGN);

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(getpeername(fd, (struct sockaddr *)&address, &(socklen_t){sizeof address}), ENOTCONN);
    FAILS(read(fd, buffer, 1), ENOTCONN);
    FAILS(write(fd, "x", 1), EPIPE);
    FAILS(shutdown(socket(AF_INET, SOCK_STREAM, 0), SHUT_RDWR), ENOTCONN);
    FAILS(accept(fd, NULL, NULL), EINVAL);
    FAILS(bind(fd, (struct sockaddr *)&address, 4), EINVAL);
    FAILS(bind(fd, (struct sockaddr *)&address, sizeof address), EADDRINUSE);
    FAILS(send(0, "x", 1, 0), ENOTSOCK);
    struct pollfd unconnected = {fd, POLLIN | POLLOUT, 0};
    CHECK(poll(&unconnected, 1, 0) == 1);
    printf("unconnected %x\n", unconnected.revents);

    address = at_port(port);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), EISCONN);
    FAILS(listen(fd, 1), EINVAL);
    CHECK(setsockopt(fd, IPPROTO_TCP, 1, &one, sizeof one) == 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0);
    CHECK(send(fd, "data", 4, MSG_NOSIGNAL) == 4);
    // What is sent may take a moment to arrive, on a busy machine, also here.
    struct pollfd arrived = {accepted, POLLIN, 0};
    CHECK(poll(&arrived, 1, -1) == 1);
    struct pollfd both[2] = {{accepted, POLLIN, 0}, {fd, POLLOUT | POLLIN | POLLRDHUP, 0}};
    CHECK(poll(both, 2, -1) == 2);
    printf("data %x %x\n", both[0].revents, both[1].revents);
    CHECK(recv(accepted, buffer, 4, MSG_PEEK | MSG_WAITALL) == 4);
    CHECK(recv(accepted, buffer, sizeof buffer, MSG_DONTWAIT) == 4);
    FAILS(recv(accepted, buffer, sizeof buffer, MSG_DONTWAIT), EAGAIN);
    close(accepted);
    struct pollfd hung_up = {fd, POLLRDHUP, 0};
    CHECK(poll(&hung_up, 1, -1) == 1);
    CHECK(poll(both + 1, 1, -1) == 1);
    printf("closed %x\n", both[1].revents);
    CHECK(read(fd, buffer, sizeof buffer) == 0);
    CHECK(write(fd, "y", 1) == 1);
    struct pollfd reset = {fd, 0, 0};
    CHECK(poll(&reset, 1, -1) == 1);
    FAILS(write(fd, "z", 1), EPIPE);
    close(fd);
    close(listener);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), ECONNREFUSED);
    FAILS(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    puts("done");
    return 0;
}
