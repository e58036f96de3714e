// Main waits for what another thread does at once, with a time limit that is long: only a machine that is very slow is late.
// Called as timed_wait poll|select|epoll|cond|sem|receive|sleep|alarm|timerfd
#include "net.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t done_sem;
static int ends[2], done;
static atomic_int finished, rang;

static void *act(void *argument) {
    OK(pthread_mutex_lock(&lock));
    done = 1;
    OK(pthread_cond_signal(&changed));
    OK(pthread_mutex_unlock(&lock));
    CHECK(sem_post(&done_sem) == 0);
    send_text(ends[1], "x");
    atomic_store(&finished, 1);
    return argument;
}

static void ring(int signal) {
    (void)signal;
    atomic_store(&rang, 1 + !atomic_load(&finished));
}

// Whether the other thread was too late.
static int wait_for(const char *kind) {
    struct timespec limit = in_ms(CLOCK_REALTIME, 10000);
    struct timeval seconds = {10, 0};
    struct pollfd readable = {ends[0], POLLIN, 0};
    char byte;
    if (strcmp(kind, "poll") == 0)
        return poll(&readable, 1, 10000) == 0;
    if (strcmp(kind, "select") == 0) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        return select(ends[0] + 1, &set, NULL, NULL, &seconds) == 0;
    }
    if (strcmp(kind, "epoll") == 0) {
        struct epoll_event event = {.events = EPOLLIN};
        int set = epoll_create1(0);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
        return epoll_wait(set, &event, 1, 10000) == 0;
    }
    if (strcmp(kind, "cond") == 0) {
        int result = 0;
        OK(pthread_mutex_lock(&lock));
        while (!done && result != ETIMEDOUT)
            result = pthread_cond_timedwait(&changed, &lock, &limit);
        result = !done;
        OK(pthread_mutex_unlock(&lock));
        return result;
    }
    if (strcmp(kind, "sem") == 0)
        return sem_timedwait(&done_sem, &limit) == -1;
    if (strcmp(kind, "receive") == 0) {
        CHECK(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &seconds, sizeof seconds) == 0);
        return recv(ends[0], &byte, 1, 0) == -1;
    }
    if (strcmp(kind, "sleep") == 0) {
        sleep_ms(10000);
        return !atomic_load(&finished);
    }
    if (strcmp(kind, "alarm") == 0) {
        sigset_t nothing;
        sigemptyset(&nothing);
        signal(SIGALRM, ring);
        alarm(10);
        while (!atomic_load(&rang))
            sigsuspend(&nothing);
        return atomic_load(&rang) == 2;
    }
    CHECK(strcmp(kind, "timerfd") == 0);
    struct itimerspec once = {.it_value = {10, 0}};
    uint64_t count;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timerfd_settime(timer, 0, &once, NULL) == 0);
    CHECK(read(timer, &count, sizeof count) == sizeof count);
    return !atomic_load(&finished);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(sem_init(&done_sem, 0, 0) == 0);
    // For main alone, and when it waits for it.
    sigset_t ringing;
    sigemptyset(&ringing);
    sigaddset(&ringing, SIGALRM);
    OK(pthread_sigmask(SIG_BLOCK, &ringing, NULL));
    pthread_t thread = start(act, NULL);
    int late = wait_for(argv[1]);
    join(thread);
    puts(late ? "too late" : "in time");
    return 0;
}
