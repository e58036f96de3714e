// Two threads that never end, one waiting and one computing, once both have begun: for tests that end the supervisor. The count makes every state
// a new one.
#include "guest.h"

static volatile long rounds;

static void *spin(void *argument) {
    for (;; rounds++)
        sched_yield();
    return argument;
}

int main(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    start(spin, NULL);
    write_all(1, "begun\n");
    CHECK(read(ends[0], &byte, 1) == -2);
}
