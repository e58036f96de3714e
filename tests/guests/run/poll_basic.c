// poll and ppoll: POLLIN, POLLOUT, POLLHUP, POLLERR, POLLNVAL, ignored negative descriptors, time limits.
#include "guest.h"
#include <poll.h>

int main(void) {
    int ends[2], other[2];
    CHECK(pipe(ends) == 0 && pipe(other) == 0);
    struct pollfd fds[4] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}, {-1, POLLIN, 9}, {88, POLLIN, 0}};
    CHECK(poll(fds, 4, -1) == 2 && fds[0].revents == 0 && fds[1].revents == POLLOUT);
    CHECK(fds[2].revents == 0 && fds[3].revents == POLLNVAL);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    CHECK(poll(fds, 1, 3) == 0 && now_ns(CLOCK_MONOTONIC) - before >= 3000000);
    struct timespec limit = {0, 2000000};
    CHECK(ppoll(fds, 1, &limit, NULL) == 0 && poll(NULL, 0, 1) == 0 && poll(fds, 1, 0) == 0);
    write_all(ends[1], "x");
    CHECK(poll(fds, 1, -1) == 1 && fds[0].revents == POLLIN);
    CHECK(close(ends[1]) == 0 && poll(fds, 1, -1) == 1 && fds[0].revents == (POLLIN | POLLHUP));
    CHECK(close(other[0]) == 0);
    struct pollfd broken = {other[1], POLLOUT, 0};
    CHECK(poll(&broken, 1, -1) == 1 && (broken.revents & POLLERR));
    int file = open("file", O_CREAT | O_RDWR, 0644);
    struct pollfd regular = {file, POLLIN | POLLOUT, 0};
    CHECK(poll(&regular, 1, -1) == 1 && regular.revents == (POLLIN | POLLOUT));
    puts("polled");
}
