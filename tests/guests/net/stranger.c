// Talks to a service at an address: `tcp PORT`, `udp PORT`, `unix PATH`; `rights PATH` sends a descriptor along. Prints what came of it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int unix_socket(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) ? -1 : fd;
}

static int inet_socket(int type, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, type, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) ? -1 : fd;
}

static long send_rights(int fd) {
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    int one = 1;
    memcpy(CMSG_DATA(header), &one, sizeof one);
    return sendmsg(fd, &message, 0);
}

int main(int argc, char **argv) {
    (void)argc;
    char answer[16];
    int fd = -1;
    long done = -1;
    if (!strcmp(argv[1], "tcp")) fd = inet_socket(SOCK_STREAM, argv[2]);
    if (!strcmp(argv[1], "unix") || !strcmp(argv[1], "rights")) fd = unix_socket(argv[2]);
    if (!strcmp(argv[1], "udp")) {
        fd = inet_socket(SOCK_DGRAM, argv[2]);
        send(fd, "hello", 5, 0);
        done = recv(fd, answer, sizeof answer, 0);
    } else if (!strcmp(argv[1], "rights")) {
        done = send_rights(fd);
    } else if (fd >= 0) {
        done = send(fd, "hello", 5, 0);
    }
    printf("%s\n", done >= 0 ? "reached" : strerrorname_np(errno));
    return 0;
}
