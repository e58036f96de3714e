// Accepts a client, a moment after it came, and reads until there is no more; tells what each read says.
// Called as hears_out PORT
#include "net.h"
#include <errno.h>
#include <string.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int listener = listen_at(atoi(argv[1]));
    dprintf(2, "listens\n");
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    usleep(200000);
    for (;;) {
        char buffer[16];
        ssize_t got = read(fd, buffer, sizeof buffer);
        dprintf(1, "%s\n", got > 0 ? "data" : got == 0 ? "end" : errno == ECONNRESET ? "ECONNRESET" : strerror(errno));
        if (got == 0)
            return 0;
    }
}
