// Two questions are asked at once, and answered one after the other; what one event of an edge-triggered, one-shot item brings is printed in brackets.
// Called as oneshot PORT
#include "net.h"
#include <fcntl.h>
#include <sys/epoll.h>

int main(int argc, char **argv) {
    CHECK(argc > 1);
    int fd = connect_to(atoi(argv[1])), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLONESHOT, .data.fd = fd}, found;
    write_all(fd, "a\n");
    write_all(fd, "b\n");
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    for (ssize_t total = 0; total < 8;) {
        char bytes[64];
        CHECK(epoll_wait(set, &found, 1, -1) == 1);
        printf("[");
        for (ssize_t got; (got = read(fd, bytes, 3)) > 0; total += got)
            printf("%.*s", (int)got, bytes);
        printf("]");
        CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
    }
    puts("");
    return 0;
}
