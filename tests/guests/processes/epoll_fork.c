// An epoll descriptor is one set for both processes; what is in it is found as long as somebody has it open.
#include "processes.h"
#include <sys/epoll.h>

int main(void) {
    int ends[2], more[2], epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1}, got[4];
    CHECK(pipe(ends) == 0 && pipe(more) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    CHECK(epoll_wait(epoll, got, 4, 0) == 0);
    // The child adds to the set of both.
    FINE(CHILD(event.data.u32 = 2; CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, more[0], &event) == 0)));
    FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, more[0], &event), EEXIST);
    pid_t pid = CHILD(sleep_ms(20); write_all(more[1], "x"); sleep_ms(20); write_all(ends[1], "y"));
    CHECK(epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 2);
    char byte;
    CHECK(read(more[0], &byte, 1) == 1);
    CHECK(epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 1);
    FINE(pid);
    // Level triggered: the child sees it as well.
    FINE(CHILD(CHECK(epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 1); CHECK(read(ends[0], &byte, 1) == 1);
               CHECK(epoll_wait(epoll, got, 4, 0) == 0)));
    CHECK(epoll_wait(epoll, got, 4, 0) == 0);
    puts("one set");
}
