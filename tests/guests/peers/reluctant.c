// A peer that does not read all that it is told.
// Called as reluctant PLACE server|client READS PAUSE: takes one connection, or makes it, reads READS bytes, 64 KiB at a time with a pause of PAUSE
// milliseconds after each, says how many they were, and never reads again. Whoever leaves with that unread is no matter to it.
#include "net.h"

static char buffer[65536];

int main(int argc, char **argv) {
    CHECK(argc == 5);
    int is_server = strcmp(argv[2], "server") == 0;
    long reads = atol(argv[3]), pause_ms = atol(argv[4]), got = 0;
    int listener = is_server ? listen_at_place(argv[1]) : -1;
    for (;;) {
        int fd = is_server ? accept(listener, NULL, NULL) : connect_to_place(argv[1]);
        CHECK(fd >= 0);
        for (got = 0; got < reads;) {
            long most = reads - got < (long)sizeof buffer ? reads - got : (long)sizeof buffer;
            ssize_t count = read(fd, buffer, most);
            if (count <= 0)
                break;
            got += count;
            if (pause_ms)
                usleep(pause_ms * 1000);
        }
        if (reads) {
            char line[32];
            int length = snprintf(line, sizeof line, "read %ld\n", got);
            (void)!send(fd, line, length, MSG_NOSIGNAL);
        }
        if (!is_server) {
            for (;;)
                pause();
        }
    }
}
