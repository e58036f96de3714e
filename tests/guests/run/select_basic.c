// select and pselect: readable, writable, time limits, EBADF, and select as a sleep.
#include "guest.h"
#include <sys/select.h>

int main(void) {
    int ends[2];
    fd_set in, out;
    CHECK(pipe(ends) == 0);
    int top = ends[1] + 1;
    struct timeval limit = {0, 3000};
    int64_t before = now_ns(CLOCK_MONOTONIC);
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    CHECK(select(top, &in, NULL, NULL, &limit) == 0 && !FD_ISSET(ends[0], &in));
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 3000000);
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    FD_ZERO(&out);
    FD_SET(ends[1], &out);
    CHECK(select(top, &in, &out, NULL, NULL) == 1 && FD_ISSET(ends[1], &out) && !FD_ISSET(ends[0], &in));
    write_all(ends[1], "x");
    FD_SET(ends[0], &in);
    FD_SET(ends[1], &out);
    CHECK(select(top, &in, &out, NULL, NULL) == 2);
    limit = (struct timeval){0, 2000};
    CHECK(select(0, NULL, NULL, NULL, &limit) == 0);
    struct timespec short_time = {0, 1000000};
    CHECK(pselect(0, NULL, NULL, NULL, &short_time, NULL) == 0);
    FD_ZERO(&in);
    // Below 64: the kernel does not look at numbers past its descriptor table, and 64 is the smallest.
    FD_SET(63, &in);
    FAILS(select(64, &in, NULL, NULL, NULL), EBADF);
    FAILS(select(-1, NULL, NULL, NULL, &limit), EINVAL);
    puts("selected");
}
