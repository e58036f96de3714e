// A server that accepts one client and leaves it.
// Called as leaves PLACE unread|read|blind|linger|exit|halves
//   unread  waits until the client has said something, and closes without having read it
//   read    reads it, and closes
//   blind   closes at once, whatever has come
//   linger  reads it, and closes with SO_LINGER of no time
//   exit    ends at once, which closes too
//   halves  reads it, says that it says no more, and closes
#include "net.h"
#include <poll.h>

int main(int argc, char **argv) {
    CHECK(argc == 3);
    const char *how = argv[2];
    char bytes[100];
    struct linger none = {1, 0};
    int fd = accept(listen_at_place(argv[1]), NULL, NULL);
    struct pollfd asked = {fd, POLLIN, 0};
    CHECK(fd >= 0);
    if (!strcmp(how, "unread"))
        CHECK(poll(&asked, 1, -1) == 1);
    if (!strcmp(how, "read") || !strcmp(how, "linger") || !strcmp(how, "halves"))
        CHECK(read(fd, bytes, sizeof bytes) > 0);
    if (!strcmp(how, "linger"))
        CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    if (!strcmp(how, "halves"))
        CHECK(shutdown(fd, SHUT_WR) == 0);
    if (strcmp(how, "exit"))
        CHECK(close(fd) == 0);
    return 0;
}
