// Timers that end at different times become readable in that order.
#include "guest.h"
#include <poll.h>
#include <sys/timerfd.h>

int main(void) {
    struct pollfd timers[3];
    int delays_ms[3] = {90, 10, 50};
    // All from the same moment, however long it takes to set them.
    int64_t base = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 3; i++) {
        int64_t at = base + delays_ms[i] * 1000000ll;
        struct itimerspec spec = {{0, 0}, {at / 1000000000, at % 1000000000}};
        timers[i] = (struct pollfd){.fd = timerfd_create(CLOCK_MONOTONIC, 0), .events = POLLIN};
        CHECK(timerfd_settime(timers[i].fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0);
    }
    int order[3], seen = 0;
    while (seen < 3) {
        CHECK(poll(timers, 3, -1) >= 1);
        // The earliest due comes first, also if several are due when the machine is slow.
        int best = -1;
        for (int i = 0; i < 3; i++)
            if ((timers[i].revents & POLLIN) && (best < 0 || delays_ms[i] < delays_ms[best]))
                best = i;
        order[seen++] = best;
        timers[best].fd = -1;
    }
    printf("%d %d %d\n", order[0], order[1], order[2]);
}
