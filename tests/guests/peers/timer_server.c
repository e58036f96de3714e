// A server with one event loop, which answers each line when a timer has run out: until then it waits for input like any other.
// Called as timer_server PORT poll|epoll|select|timerfd|ticks DELAY: answers "late LINE" after DELAY milliseconds. `ticks` looks every fifth of that time
// whether somebody is to be answered, also while nobody is there.
#include "net.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>

#define MOST 16

static struct {
    int fd;
    long due;
    char line[64];
} guests[MOST];
static int count, listener, timer = -1;

static long now(void) {
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// Until somebody is to be answered; -1 if nobody is.
static int until_due(void) {
    long first = -1;
    for (int i = 0; i < count; i++)
        if (guests[i].due && (first < 0 || guests[i].due < first))
            first = guests[i].due;
    long left = first - now();
    return first < 0 ? -1 : left < 0 ? 0 : (int)left;
}

static void wait_with_epoll(struct pollfd *fds, int limit) {
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    CHECK(set >= 0);
    for (int i = 0; i <= count; i++)
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fds[i].fd, &event) == 0);
    if (timer >= 0) {
        struct itimerspec spec = {.it_value = {limit / 1000, limit % 1000 * 1000000 + 1}};
        CHECK(timerfd_settime(timer, 0, limit < 0 ? &(struct itimerspec){} : &spec, NULL) == 0);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, timer, &event) == 0);
        limit = -1;
    }
    CHECK(epoll_wait(set, &event, 1, limit) >= 0);
    CHECK(close(set) == 0);
    CHECK(poll(fds, count + 1, 0) >= 0);
}

static void wait_with_select(struct pollfd *fds, int limit) {
    struct timeval time = {limit / 1000, limit % 1000 * 1000};
    fd_set set;
    FD_ZERO(&set);
    for (int i = 0; i <= count; i++)
        FD_SET(fds[i].fd, &set);
    CHECK(select(FD_SETSIZE, &set, NULL, NULL, limit < 0 ? NULL : &time) >= 0);
    CHECK(poll(fds, count + 1, 0) >= 0);
}

static void serve(struct pollfd *fds, long delay) {
    for (int i = count - 1; i >= 0; i--) {
        char text[80];
        if (fds[i].revents && read_line(guests[i].fd, guests[i].line, sizeof guests[i].line) < 0) {
            CHECK(close(guests[i].fd) == 0);
            guests[i] = guests[--count];
        } else if (fds[i].revents) {
            guests[i].due = now() + delay;
        } else if (guests[i].due && guests[i].due <= now()) {
            snprintf(text, sizeof text, "late %s\n", guests[i].line);
            guests[i].due = 0;
            (void)!send(guests[i].fd, text, strlen(text), MSG_NOSIGNAL);
        }
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    const char *kind = argv[2];
    int delay = atoi(argv[3]);
    listener = listen_at(atoi(argv[1]));
    if (strcmp(kind, "timerfd") == 0)
        CHECK((timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) >= 0);
    for (;;) {
        struct pollfd fds[MOST + 1];
        int limit = strcmp(kind, "ticks") == 0 ? delay / 5 : until_due();
        for (int i = 0; i < count; i++)
            fds[i] = (struct pollfd){guests[i].fd, POLLIN, 0};
        fds[count] = (struct pollfd){listener, POLLIN, 0};
        if (strcmp(kind, "epoll") == 0 || timer >= 0)
            wait_with_epoll(fds, limit);
        else if (strcmp(kind, "select") == 0)
            wait_with_select(fds, limit);
        else
            CHECK(poll(fds, count + 1, limit) >= 0);
        int comes = fds[count].revents && count < MOST;
        serve(fds, delay);
        if (comes) {
            guests[count].due = 0;
            CHECK((guests[count++].fd = accept(listener, NULL, NULL)) >= 0);
        }
    }
}
