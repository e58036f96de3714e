// Connects, says something or not, and resets the connection at once.
// Called as resetter PORT [TEXT]
#include "net.h"

int main(int argc, char **argv) {
    struct linger none = {.l_onoff = 1};
    int fd = connect_to(atoi(argv[1]));
    if (argc > 2)
        send_text(fd, argv[2]);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    return close(fd);
}
