// A call with a mask of its own tells of what there is, and leaves the signal that only its mask lets through pending. If there is nothing, poll tells of the signal, and epoll without a
// wait of nothing.
#include "guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

static int handled;
static void handle(int signal) {
    (void)signal;
    handled++;
}

static int is_pending(void) {
    sigset_t set;
    CHECK(sigpending(&set) == 0);
    return sigismember(&set, SIGUSR1);
}

int main(void) {
    sigset_t blocked, none;
    sigemptyset(&none), sigemptyset(&blocked), sigaddset(&blocked, SIGUSR1);
    CHECK(signal(SIGUSR1, handle) != SIG_ERR && sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    int epoll = epoll_create1(0), counter = eventfd(1, 0);
    struct epoll_event event = {.events = EPOLLIN}, got;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event) == 0);
    struct pollfd entry = {counter, POLLIN, 0};
    struct timespec at_once = {0, 0};
    CHECK(kill(getpid(), SIGUSR1) == 0);
    // There is something.
    CHECK(epoll_pwait(epoll, &got, 1, -1, &none) == 1 && epoll_pwait(epoll, &got, 1, 0, &none) == 1);
    CHECK(ppoll(&entry, 1, NULL, &none) == 1);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(counter, &set);
    CHECK(pselect(counter + 1, &set, NULL, NULL, NULL, &none) == 1);
    CHECK(handled == 0 && is_pending());
    // There is nothing.
    eventfd_t value;
    CHECK(eventfd_read(counter, &value) == 0);
    CHECK(epoll_pwait(epoll, &got, 1, 0, &none) == 0 && handled == 0 && is_pending());
    FAILS(ppoll(&entry, 1, &at_once, &none), EINTR);
    CHECK(handled == 1 && !is_pending());
    CHECK(kill(getpid(), SIGUSR1) == 0);
    FAILS(epoll_pwait(epoll, &got, 1, -1, &none), EINTR);
    CHECK(handled == 2);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    FAILS(pselect(counter + 1, &set, NULL, NULL, &at_once, &none), EINTR);
    // Each time the mask before is back.
    CHECK(handled == 3 && kill(getpid(), SIGUSR1) == 0 && handled == 3 && is_pending());
    puts("as the kernel");
    return 0;
}
