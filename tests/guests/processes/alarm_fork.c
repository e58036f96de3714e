// Alarms and interval timers are not inherited by fork, but stay across exec.
#include "processes.h"
#include <sys/timerfd.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        unsigned left = alarm(0);
        printf("%s after exec\n", left > 0 && left <= 100 ? "still set" : "gone");
        return 0;
    }
    alarm(100);
    struct itimerval timer;
    FINE(CHILD(CHECK(alarm(0) == 0); CHECK(getitimer(ITIMER_REAL, &timer) == 0 && timer.it_value.tv_sec == 0)));
    CHECK(alarm(100) > 90);
    FINE(CHILD(alarm(100); execl("/proc/self/exe", argv[0], "again", NULL)));
    // A timer of the parent is none in the child.
    timer_t created;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec value = {.it_value.tv_sec = 50}, left;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &created) == 0 && timer_settime(created, 0, &value, NULL) == 0);
    FINE(CHILD(FAILS(timer_gettime(created, &left), EINVAL)));
    // A timerfd is a descriptor, and so is inherited.
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    value = (struct itimerspec){.it_value.tv_nsec = 20000000};
    CHECK(timerfd_settime(fd, 0, &value, NULL) == 0);
    FINE(CHILD(uint64_t count; CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1)));
    CHECK(timerfd_gettime(fd, &left) == 0 && left.it_value.tv_nsec == 0);
    puts("not inherited");
}
