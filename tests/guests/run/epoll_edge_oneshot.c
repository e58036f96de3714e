// Edge-triggered epoll reports each arrival once; one-shot must be armed again; both with eventfd and pipe.
#include "guest.h"
#include <sys/epoll.h>

int main(void) {
    int ends[2], set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = 1}, got[4];
    CHECK(pipe(ends) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
    write_all(ends[1], "a");
    printf("edge %d", epoll_wait(set, got, 4, 0));
    printf(" %d", epoll_wait(set, got, 4, 0));
    write_all(ends[1], "b");
    printf(" %d", epoll_wait(set, got, 4, 0));
    printf(" %d\n", epoll_wait(set, got, 4, 0));
    event.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event) == 0);
    printf("one-shot %d", epoll_wait(set, got, 4, 0));
    write_all(ends[1], "c");
    printf(" %d", epoll_wait(set, got, 4, 0));
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event) == 0);
    printf(" %d\n", epoll_wait(set, got, 4, 0));
}
