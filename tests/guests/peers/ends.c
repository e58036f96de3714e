// A client that says something and tells how the connection ends: with status 0 by an end, with status 3 by a reset.
// Called as ends PLACE TEXT [more]
//   more  says two more things after an end: status 4 if the second (on a Unix socket the first) is refused, 5 if both are taken
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 3 || argc == 4);
    char heard[256];
    ssize_t got;
    int fd = connect_to_place(argv[1]);
    (void)!send(fd, argv[2], strlen(argv[2]), MSG_NOSIGNAL);
    while ((got = read(fd, heard, sizeof heard)) > 0)
        ;
    if (got < 0)
        return 3;
    if (argc == 3)
        return 0;
    int is_unix = strchr(argv[1], '/') != NULL;
    CHECK(send(fd, "1", 1, MSG_NOSIGNAL) == (is_unix ? -1 : 1));
    return send(fd, "2", 1, MSG_NOSIGNAL) < 0 ? 4 : 5;
}
