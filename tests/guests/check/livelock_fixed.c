// A thread looks for an event that another one brings about: it comes, whoever goes first.
#include "guest.h"
#include <poll.h>

static int ends[2];

static void *brings(void *argument) {
    write_all(ends[1], "x");
    return argument;
}

int main(void) {
    CHECK(pipe(ends) == 0);
    pthread_t thread = start(brings, NULL);
    struct pollfd polled = {ends[0], POLLIN, 0};
    while (poll(&polled, 1, 0) == 0)
        ;
    join(thread);
}
