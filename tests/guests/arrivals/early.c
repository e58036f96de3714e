// Connects without waiting, and must wait for the connection to stand before it writes.
// Called as early PORT buggy|fixed|again, where `again` is a second connect of a socket that waits by then.
#include "net.h"
#include <errno.h>
#include <poll.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    struct sockaddr_in address = at_port(atoi(argv[1]));
    int error = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    socklen_t length = sizeof error;
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EINPROGRESS);
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    if (!strcmp(argv[2], "fixed"))
        CHECK(poll(&poll_fd, 1, -1) == 1);
    if (!strcmp(argv[2], "again")) {
        CHECK(fcntl(fd, F_SETFL, 0) == 0);
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    }
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    if (error) {
        puts("refused");
        return 0;
    }
    puts(write(fd, "hello\n", 6) == 6 ? "said" : "lost");
    return 0;
}
