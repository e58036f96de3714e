// How timerfd behaves: one shot, interval (expirations add up), disarming, gettime, absolute times, EAGAIN.
#include "guest.h"
#include <sys/timerfd.h>

int main(void) {
    uint64_t expired;
    struct itimerspec spec = {{0, 0}, {0, 2000000}}, left;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    CHECK(timer >= 0);
    FAILS(read(timer, &expired, 8), EAGAIN);
    CHECK(fcntl(timer, F_SETFL, 0) == 0);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    CHECK(timerfd_settime(timer, 0, &spec, NULL) == 0 && timerfd_gettime(timer, &left) == 0);
    CHECK(left.it_value.tv_nsec <= 2000000);
    CHECK(read(timer, &expired, 8) == 8 && expired == 1 && now_ns(CLOCK_MONOTONIC) - before >= 2000000);
    puts("one shot");
    spec.it_interval.tv_nsec = 1000000;
    CHECK(timerfd_settime(timer, 0, &spec, NULL) == 0);
    uint64_t total = 0;
    while (total < 4) {
        CHECK(read(timer, &expired, 8) == 8 && expired >= 1);
        total += expired;
    }
    puts("interval");
    struct itimerspec off = {0};
    CHECK(timerfd_settime(timer, 0, &off, &left) == 0 && left.it_interval.tv_nsec == 1000000);
    CHECK(fcntl(timer, F_SETFL, O_NONBLOCK) == 0);
    FAILS(read(timer, &expired, 8), EAGAIN);
    off.it_value = in_ms(CLOCK_MONOTONIC, 2);
    CHECK(fcntl(timer, F_SETFL, 0) == 0 && timerfd_settime(timer, TFD_TIMER_ABSTIME, &off, NULL) == 0);
    CHECK(read(timer, &expired, 8) == 8 && expired == 1);
    FAILS(read(timer, &expired, 4), EINVAL);
    puts("absolute");
}
