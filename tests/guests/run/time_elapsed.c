// Clocks do not go back and at least as much time passes as was slept, on every clock and by every call.
#include "guest.h"

int main(void) {
    int64_t mono = now_ns(CLOCK_MONOTONIC), real = now_ns(CLOCK_REALTIME), boot = now_ns(CLOCK_BOOTTIME);
    sleep_ms(2);
    CHECK(usleep(1000) == 0);
    struct timespec until = in_ms(CLOCK_MONOTONIC, 2);
    OK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    CHECK(now_ns(CLOCK_MONOTONIC) - mono >= 5000000);
    CHECK(now_ns(CLOCK_REALTIME) - real >= 5000000 && now_ns(CLOCK_BOOTTIME) - boot >= 5000000);
    until = (struct timespec){1, 0};
    OK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    int64_t last = now_ns(CLOCK_MONOTONIC_RAW);
    for (int i = 0; i < 100; i++) {
        int64_t now = now_ns(CLOCK_MONOTONIC_RAW);
        CHECK(now >= last);
        last = now;
    }
    struct timespec bad = {0, 1000000000}, resolution;
    FAILS(nanosleep(&bad, NULL), EINVAL);
    CHECK(clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_sec == 0 && resolution.tv_nsec > 0);
    FAILS(clock_gettime(77, &bad), EINVAL);
    struct timeval day;
    // The kernel's time() is that of the last tick: it may be in the second before.
    CHECK(gettimeofday(&day, NULL) == 0 && time(NULL) >= day.tv_sec - 1 && day.tv_sec > 1000000000);
    CHECK(clock() != (clock_t)-1 && now_ns(CLOCK_PROCESS_CPUTIME_ID) >= 0 && now_ns(CLOCK_THREAD_CPUTIME_ID) >= 0);
    puts("time passes");
}
