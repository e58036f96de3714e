// Accepts a client and reads until there is no more; tells what each read was given.
// Called as reads_parts PORT
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int listener = listen_at(atoi(argv[1]));
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (;;) {
        char buffer[16];
        ssize_t got = read(fd, buffer, sizeof buffer);
        CHECK(got >= 0);
        if (got == 0)
            return 0;
        printf("[%.*s]", (int)got, buffer);
    }
}
