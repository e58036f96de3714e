// A server that says one byte on each connection and closes it.
// Called as closes PLACE
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int listener = listen_at_place(argv[1]);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        (void)!send(fd, "x", 1, MSG_NOSIGNAL);
        close(fd);
    }
}
