// A thread that waits in epoll is woken by events of others; an epoll set inside another is readable; dup and close.
#include "guest.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int events[3];

static void *poster(void *argument) {
    for (int i = 0; i < 3; i++)
        CHECK(eventfd_write(events[i], i + 1) == 0);
    return argument;
}

int main(void) {
    int inner = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 77}, got[4];
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK((events[i] = eventfd(0, EFD_NONBLOCK)) >= 0);
        event.data.u32 = i;
        CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, events[i], &event) == 0);
    }
    pthread_t thread = start(poster, NULL);
    int sum = 0, seen = 0;
    while (seen < 3) {
        CHECK(epoll_wait(outer, got, 4, -1) == 1 && got[0].data.u32 == 77);
        int count = epoll_wait(inner, got, 4, 0);
        for (int i = 0; i < count; i++, seen++) {
            eventfd_t value;
            CHECK(eventfd_read(events[got[i].data.u32], &value) == 0);
            sum += value;
        }
    }
    join(thread);
    printf("sum %d\n", sum);
    CHECK(eventfd_write(events[0], 1) == 0 && close(events[0]) == 0 && epoll_wait(inner, got, 4, 0) == 0);
    puts("a closed descriptor leaves the set");
}
