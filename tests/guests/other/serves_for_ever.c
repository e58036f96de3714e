// Serves one client at a place and then never ends, one thread waiting and one computing: for tests that end the supervisor while
// there are peers.
// Called as serves_for_ever PLACE
#include "net.h"

static void *spin(void *argument) {
    for (;;)
        sched_yield();
    return argument;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int fd = accept(listen_at_place(argv[1]), NULL, NULL);
    char byte;
    CHECK(fd >= 0);
    start(spin, NULL);
    // A client that has said all waits for an answer, which does not come.
    while (read(fd, &byte, 1) == 1)
        ;
}
