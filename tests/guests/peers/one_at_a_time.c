// A server that serves one connection at a time: it answers each line with the line, until the other side ends the connection, and only then takes the next.
// Called as one_at_a_time PORT
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int listener = listen_at(atoi(argv[1]));
    for (;;) {
        char bytes[256];
        ssize_t got;
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        while ((got = read(fd, bytes, sizeof bytes)) > 0)
            (void)!send(fd, bytes, got, MSG_NOSIGNAL);
        close(fd);
    }
}
