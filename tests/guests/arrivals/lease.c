// Datagrams: whoever asks first has a lease for a while; who asks meanwhile does not get one.
// Called as lease PORT
#include "net.h"
#include <poll.h>

int main(int argc, char **argv) {
    CHECK(argc > 1);
    struct sockaddr_in here = at_port(atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), is_leased = 0;
    CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
    for (int heard = 0; heard < 2;) {
        struct pollfd looked = {.fd = fd, .events = POLLIN};
        char text[16];
        if (poll(&looked, 1, 2) == 0) {
            is_leased = 0;
            continue;
        }
        ssize_t got = recv(fd, text, sizeof text, 0);
        CHECK(got > 0);
        printf("%.*s%c", (int)got, text, is_leased ? '-' : '+');
        is_leased = 1;
        heard++;
    }
    puts("");
    return 0;
}
