// A client that says something and tells how the connection ends: with status 0 by an end, with status 3 by a reset.
// Called as ends PORT TEXT
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    char heard[256];
    ssize_t got;
    int fd = connect_to(atoi(argv[1]));
    (void)!send(fd, argv[2], strlen(argv[2]), MSG_NOSIGNAL);
    while ((got = read(fd, heard, sizeof heard)) > 0)
        ;
    return got < 0 ? 3 : 0;
}
