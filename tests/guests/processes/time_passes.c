// Time is one for all processes: who sleeps longer ends later.
#include "processes.h"

int main(void) {
    pid_t slow = CHILD(sleep_ms(300); _exit(1)), fast = CHILD(sleep_ms(100); _exit(2));
    int64_t before = now_ns(CLOCK_MONOTONIC);
    CHECK(waitpid(-1, NULL, 0) == fast);
    CHECK(waitpid(-1, NULL, 0) == slow);
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 200000000);
    puts("in the order of time");
}
