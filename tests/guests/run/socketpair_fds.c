// A descriptor sent over a socket pair (SCM_RIGHTS) arrives as a new number for the same open file, or is refused.
#include "guest.h"
#include <sys/socket.h>

int main(void) {
    int pair[2], file = open("file", O_RDWR | O_CREAT, 0644);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    write_all(file, "shared offset");
    char byte = '!', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &file, sizeof file);
    CHECK(sendmsg(pair[0], &message, 0) == 1);
    memset(control, 0, sizeof control);
    CHECK(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC) == 1 && byte == '!');
    header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_type == SCM_RIGHTS);
    int received;
    memcpy(&received, CMSG_DATA(header), sizeof received);
    CHECK(received > pair[1] && fcntl(received, F_GETFD) == FD_CLOEXEC && close(file) == 0);
    CHECK(lseek(received, 7, SEEK_SET) == 7);
    char text[16] = {0};
    CHECK(read(received, text, 15) == 6);
    puts(text);
}
