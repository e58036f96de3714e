// Corners of the socket calls: flags that nobody waits with, a close that is a reset, options that are read back, where a datagram came in.
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void reset(int listener, struct sockaddr_in *at) {
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(client, (void *)at, sizeof *at) == 0);
    int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(server >= 0);
    char byte;
    CHECK(recv(server, &byte, 1, MSG_OOB) == -1 && errno == EINVAL);
    CHECK(recv(server, &byte, 1, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    int mark = 7;
    CHECK(ioctl(server, SIOCATMARK, &mark) == 0 && mark == 0);
    struct linger none = {1, 0};
    CHECK(setsockopt(client, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    CHECK(close(client) == 0);
    CHECK(recv(server, &byte, 1, 0) == -1 && errno == ECONNRESET);
    CHECK(recv(server, &byte, 1, 0) == 0);
    CHECK(send(server, &byte, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    close(server);
}

static void state(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0);
    printf("state %d\n", info.tcpi_state);
}

static void options(int fd) {
    struct {
        const char *name;
        int level, option;
    } all[] = {{"fast open", IPPROTO_TCP, TCP_FASTOPEN_CONNECT},
               {"linger", IPPROTO_TCP, TCP_LINGER2},
               {"thin", IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS},
               {"discovery", IPPROTO_IP, IP_MTU_DISCOVER},
               {"multicast loop", IPPROTO_IP, IP_MULTICAST_LOOP},
               {"stamps", SOL_SOCKET, SO_TIMESTAMPNS},
               {"overflows", SOL_SOCKET, SO_RXQ_OVFL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int value = -1, one = 1;
        socklen_t size = sizeof value;
        CHECK(getsockopt(fd, all[i].level, all[i].option, &value, &size) == 0);
        printf("%s %d", all[i].name, value);
        CHECK(setsockopt(fd, all[i].level, all[i].option, &one, sizeof one) == 0);
        CHECK(getsockopt(fd, all[i].level, all[i].option, &value, &size) == 0);
        printf(" %d\n", value);
    }
    state(fd);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    char name[16] = "";
    socklen_t size = sizeof name;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
    printf("congestion %s %d\n", name, (int)size);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "none", 4) == -1 && errno == ENOENT);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "none0", 6) == -1 && errno == ENODEV);
}

static void where_it_came_in(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == -1 && errno == ENOPROTOOPT);
    struct sockaddr_in any = {.sin_family = AF_INET};
    CHECK(bind(fd, (void *)&any, sizeof any) == 0);
    socklen_t size = sizeof any;
    CHECK(getsockname(fd, (void *)&any, &size) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one) == 0);
    struct sockaddr_in to = loopback(any.sin_port);
    CHECK(sendto(fd, "hello", 5, 0, (void *)&to, sizeof to) == 5);
    char text[8];
    union {
        char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct cmsghdr align;
    } control;
    struct iovec piece = {text, sizeof text};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(fd, &message, 0) == 5);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO);
    struct in_pktinfo *info = (void *)CMSG_DATA(header);
    printf("interface %d, address %s\n", info->ipi_ifindex, inet_ntoa(info->ipi_addr));
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = loopback(0);
    CHECK(connect(listener, (void *)&at, 4) == -1 && errno == EINVAL);
    CHECK(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 5) == 0);
    socklen_t size = sizeof at;
    CHECK(getsockname(listener, (void *)&at, &size) == 0);
    CHECK(accept4(listener, NULL, NULL, 1) == -1 && errno == EINVAL);
    reset(listener, &at);
    state(listener);
    options(socket(AF_INET, SOCK_STREAM, 0));
    where_it_came_in();
    return 0;
}
