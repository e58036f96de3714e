// Non-blocking connect and accept with epoll, level and edge triggered.
#include "net.h"
#include <sys/epoll.h>

static void wait_for(int set, int fd, unsigned events) {
    struct epoll_event event;
    CHECK(epoll_wait(set, &event, 1, -1) == 1);
    CHECK(event.data.fd == fd);
    CHECK((event.events & events) == events);
}

static void watch(int set, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

int main(void) {
    int port, error, set = epoll_create1(0);
    int listener = listen_anywhere(&port);
    struct sockaddr_in address = at_port(port);
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    FAILS(accept(listener, NULL, NULL), EAGAIN);
    watch(set, listener, EPOLLIN);

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), EINPROGRESS);
    wait_for(set, listener, EPOLLIN);
    int clients = epoll_create1(0);
    watch(clients, fd, EPOLLOUT | EPOLLIN | EPOLLET);
    wait_for(clients, fd, EPOLLOUT);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) == 0 && error == 0);
    int accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(accepted >= 0);
    FAILS(accept(listener, NULL, NULL), EAGAIN);
    puts("connected");

    send_text(accepted, "hello\n");
    wait_for(clients, fd, EPOLLIN);
    struct epoll_event event;
    CHECK(epoll_wait(clients, &event, 1, 0) == 0);
    char line[16];
    CHECK(read_line(fd, line, sizeof line) == 5);
    FAILS(read(fd, line, 1), EAGAIN);
    close(accepted);
    wait_for(clients, fd, EPOLLIN);
    CHECK(read(fd, line, 1) == 0);
    puts("closed");
    close(fd);
    close(listener);

    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), EINPROGRESS);
    watch(clients, fd, EPOLLOUT);
    CHECK(epoll_wait(clients, &event, 1, -1) == 1);
    printf("refused %x\n", event.events);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) == 0);
    CHECK(error == ECONNREFUSED);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) == 0 && error == 0);
    return 0;
}
