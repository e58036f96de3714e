// Level-triggered epoll: reports as long as data is there, with the user's data; ADD/MOD/DEL and their errors.
#include "guest.h"
#include <sys/epoll.h>

int main(void) {
    int ends[2], set = epoll_create1(EPOLL_CLOEXEC);
    char byte;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234567890}, got[4];
    CHECK(set >= 0 && pipe(ends) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), EEXIST);
    FAILS(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event), ENOENT);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, 99, &event), EBADF);
    CHECK(epoll_wait(set, got, 4, 0) == 0 && epoll_wait(set, got, 4, 2) == 0);
    write_all(ends[1], "ab");
    for (int i = 0; i < 2; i++) {
        CHECK(epoll_wait(set, got, 4, -1) == 1 && got[0].events == EPOLLIN && got[0].data.u64 == 0x1234567890);
        CHECK(read(ends[0], &byte, 1) == 1);
        putchar(byte);
    }
    CHECK(epoll_wait(set, got, 4, 0) == 0);
    event.events = 0;
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event) == 0);
    write_all(ends[1], "c");
    CHECK(epoll_wait(set, got, 4, 0) == 0);
    CHECK(close(ends[1]) == 0 && epoll_wait(set, got, 4, -1) == 1 && got[0].events == EPOLLHUP);
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL) == 0 && epoll_wait(set, got, 4, 0) == 0);
    FAILS(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), ENOENT);
    int file = open("file", O_CREAT | O_RDWR, 0644);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, file, &event), EPERM);
    FAILS(epoll_wait(set, got, 0, 0), EINVAL);
    puts(" level");
}
