// A thread looks for an event that another one has taken away, if that came first: it looks for ever.
// expect: livelock
// min-preemptions: 1
#include "guest.h"
#include <poll.h>

static int ends[2];

static void *takes(void *argument) {
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    return argument;
}

int main(void) {
    CHECK(pipe(ends) == 0);
    write_all(ends[1], "x");
    pthread_t thread = start(takes, NULL);
    struct pollfd polled = {ends[0], POLLIN, 0};
    while (poll(&polled, 1, 0) == 0)
        ;
    join(thread);
}
