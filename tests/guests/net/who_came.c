// A server at any address, of IPv6 and so of IPv4 too, that prints who came and where they came to.
// Called as who_came PORT CLIENTS
#include "net.h"

static void show(const char *what, struct sockaddr_in6 *address) {
    char text[64];
    CHECK(address->sin6_family == AF_INET6);
    printf("%s %s\n", what, inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text));
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(argv[1]))};
    int one = 1, listener = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 16) == 0);
    for (int i = 0; i < atoi(argv[2]); i++) {
        socklen_t length = sizeof address;
        int fd = accept(listener, (struct sockaddr *)&address, &length);
        CHECK(fd >= 0);
        show("accept", &address);
        CHECK(getpeername(fd, (struct sockaddr *)&address, &length) == 0);
        show("from", &address);
        CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
        show("to", &address);
        close(fd);
    }
    return 0;
}
