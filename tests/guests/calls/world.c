// The files and descriptors that random calls find.
#include "calls.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>

static void file(const char *path, int size, mode_t mode) {
    int fd = open(path, O_CREAT | O_WRONLY, mode);
    CHECK(fd >= 0);
    for (int i = 0; i < size; i++)
        CHECK(write(fd, &"0123456789abcdef"[i % 16], 1) == 1);
    close(fd);
}

void make_files(void) {
    file("f", 300, 0644);
    file("empty", 0, 0644);
    file("readonly", 20, 0444);
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/sub", 0755) == 0 && mkdir("locked", 0755) == 0);
    file("d/f", 5, 0644);
    file("d/sub/f", 5, 0644);
    file("locked/f", 5, 0644);
    CHECK(chmod("locked", 0) == 0);
    CHECK(symlink("f", "s") == 0 && symlink("d", "sd") == 0 && symlink("nowhere", "dangling") == 0 && symlink("loop", "loop") == 0);
    CHECK(link("f", "h") == 0);
}

static int at_most(int fd) {
    CHECK(fd >= 0 && fd < DESCRIPTORS);
    return fd;
}

static void make_pairs(void) {
    int pair[2];
    CHECK(pipe2(pair, O_NONBLOCK) == 0 && write(pair[1], "in the pipe", 11) == 11);
    CHECK(pipe2(pair, 0) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && write(pair[1], "datagram", 8) == 8);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
}

static struct sockaddr_in loopback(void) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void make_inet(void) {
    struct sockaddr_in address = loopback();
    socklen_t size = sizeof address;
    int listener = at_most(socket(AF_INET, SOCK_STREAM, 0));
    CHECK(bind(listener, (void *)&address, size) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (void *)&address, &size) == 0);
    int client = at_most(socket(AF_INET, SOCK_STREAM, 0));
    CHECK(connect(client, (void *)&address, size) == 0);
    int server = at_most(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    CHECK(write(client, "stream", 6) == 6 && server > client);
    // What was sent is there when it can be read.
    struct timeval patience = {10, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(server, &set);
    CHECK(select(server + 1, &set, NULL, NULL, &patience) == 1);
    int datagrams = at_most(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    address = loopback();
    CHECK(bind(datagrams, (void *)&address, size) == 0 && getsockname(datagrams, (void *)&address, &size) == 0);
    CHECK(connect(datagrams, (void *)&address, size) == 0);
    at_most(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    at_most(socket(AF_INET6, SOCK_DGRAM, 0));
}

static void make_unix(void) {
    struct sockaddr_un address = {AF_UNIX, "socket"};
    int listener = at_most(socket(AF_UNIX, SOCK_STREAM, 0));
    CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 3) == 0);
    at_most(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    at_most(socket(AF_UNIX, SOCK_DGRAM, 0));
}

void make_descriptors(void) {
    at_most(open("f", O_RDWR));
    at_most(open("f", O_RDONLY));
    at_most(open("empty", O_WRONLY | O_APPEND));
    at_most(open("d", O_RDONLY | O_DIRECTORY));
    at_most(open("f", O_PATH));
    at_most(open("/dev/null", O_RDWR));
    at_most(open("/dev/zero", O_RDWR));
    make_pairs();
    make_inet();
    make_unix();
    int epoll = at_most(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, 7, &event) == 0);
    at_most(eventfd(3, EFD_NONBLOCK));
    at_most(eventfd(0, EFD_SEMAPHORE));
    at_most(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    at_most(signalfd(-1, &set, SFD_NONBLOCK));
    at_most(memfd_create("memory", MFD_ALLOW_SEALING));
}
