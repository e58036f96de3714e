// Time passes for threads that look for an event again and again without waiting for it, in every way there is to look, and for one that works
// until some time has passed.
#include "guest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static int timer(int flags) {
    int fd = timerfd_create(CLOCK_MONOTONIC, flags);
    struct itimerspec at = {.it_value = {0, 30000000}};
    CHECK(fd >= 0 && timerfd_settime(fd, 0, &at, NULL) == 0);
    return fd;
}

static void by_poll(void) {
    struct pollfd polled = {timer(0), POLLIN, 0};
    while (poll(&polled, 1, 0) == 0)
        ;
    struct pollfd again = {timer(0), POLLIN, 0};
    struct timespec none = {0, 0};
    while (ppoll(&again, 1, &none, NULL) == 0)
        ;
}

static void by_select(void) {
    int fd = timer(0), found;
    do {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval none = {0, 0};
        found = select(fd + 1, &set, NULL, NULL, &none);
    } while (found == 0);
}

static void by_epoll(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int set = epoll_create1(0), found;
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, timer(0), &event) == 0);
    do {
        OK(pthread_mutex_lock(&mutex));
        found = epoll_wait(set, &event, 1, 0);
        OK(pthread_mutex_unlock(&mutex));
    } while (found == 0);
}

static void by_read(void) {
    int fd = timer(TFD_NONBLOCK);
    uint64_t count;
    while (read(fd, &count, sizeof count) == -1)
        CHECK(errno == EAGAIN);
    CHECK(count == 1);
}

static void by_clock(void) {
    int64_t end = now_ns(CLOCK_MONOTONIC) + 30000000;
    struct timespec none = {0, 0};
    while (now_ns(CLOCK_MONOTONIC) < end)
        CHECK(nanosleep(&none, NULL) == 0);
    end = now_ns(CLOCK_MONOTONIC) + 30000000;
    while (now_ns(CLOCK_MONOTONIC) < end)
        sched_yield();
    end = now_ns(CLOCK_MONOTONIC) + 30000000;
    while (now_ns(CLOCK_MONOTONIC) < end)
        CHECK(poll(NULL, 0, 0) == 0);
}

// A loop that counts has an end, though it does nothing else.
static void by_counting(void) {
    for (int i = 0; i < 3000; i++)
        sched_yield();
    for (int i = 0; i < 3000; i++)
        CHECK(poll(NULL, 0, 0) == 0);
}

static int end_of_sleep[2];

static void *sleeps(void *argument) {
    sleep_ms(30);
    write_all(end_of_sleep[1], "x");
    return argument;
}

// Two threads look for what a third one does when it has slept.
static void *looks(void *argument) {
    struct pollfd polled = {end_of_sleep[0], POLLIN, 0};
    while (poll(&polled, 1, 0) == 0)
        ;
    return argument;
}

// Real work, all the time, and more of it than anybody would do without looking at the clock.
static void by_work(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    int64_t end = now_ns(CLOCK_MONOTONIC) + 3000000;
    while (now_ns(CLOCK_MONOTONIC) < end)
        CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1);
}

int main(void) {
    by_poll();
    by_select();
    by_epoll();
    by_read();
    by_clock();
    by_counting();
    puts("alone");
    CHECK(pipe(end_of_sleep) == 0);
    pthread_t threads[] = {start(sleeps, NULL), start(looks, NULL), start(looks, NULL)};
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    puts("together");
    by_work();
    puts("by work");
}
