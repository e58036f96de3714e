// _exit leaves at once: nothing buffered is written, no handlers, other threads end with it.
// exit: 9
#include "guest.h"

static void never(void) { write_all(1, "never\n"); }

static void *spin(void *argument) {
    for (;;)
        sched_yield();
    return argument;
}

int main(void) {
    CHECK(atexit(never) == 0);
    start(spin, NULL);
    printf("buffered and lost");
    write_all(1, "written at once\n");
    _exit(9);
}
