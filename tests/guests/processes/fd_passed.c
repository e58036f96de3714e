// SCM_RIGHTS: a descriptor goes to another process, and lives on while it is under way.
#include "processes.h"
#include <sys/socket.h>

static void pass(int s, int fd) {
    char byte = 'd', space[CMSG_SPACE(sizeof fd)];
    memset(space, 0, sizeof space);
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(s, &message, 0) == 1);
}

static int passed(int s) {
    int fd = -1;
    char byte, space[CMSG_SPACE(sizeof fd)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(recvmsg(s, &message, 0) == 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_type == SCM_RIGHTS);
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int main(void) {
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        CHECK(close(s[0]) == 0);
        char text[16] = {0};
        int fd = passed(s[1]);
        CHECK(lseek(fd, 0, SEEK_CUR) == 3 && read(fd, text, 4) == 4);
        puts(text);
        int ends[2];
        CHECK(pipe(ends) == 0);
        pass(s[1], ends[0]);
        CHECK(close(ends[0]) == 0);
        write_all(ends[1], "through a passed pipe\n");
        exit(0);
    }
    CHECK(close(s[1]) == 0);
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    write_all(fd, "abcdefg");
    CHECK(lseek(fd, 3, SEEK_SET) == 3);
    pass(s[0], fd);
    CHECK(close(fd) == 0 && unlink("file") == 0);
    FINE(pid);
    int end = passed(s[0]);
    char byte;
    while (read(end, &byte, 1) == 1)
        putchar(byte);
}
