// A server that keeps a sum: each datagram of a client is an amount, with a number of its own after a colon. It ends when no more comes for a second.
// Called as udp_store PORT buggy|fixed [poll]
// buggy adds whatever comes; fixed does not add the same number twice.
#include "net.h"
#include <poll.h>

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    struct sockaddr_in here = at_port(atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), fixed = !strcmp(argv[2], "fixed"), seen[10] = {0}, sum = 0, last = 0;
    struct timeval limit = {.tv_sec = 1};
    CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    for (;;) {
        char text[16] = "";
        int amount, number;
        struct pollfd asked = {fd, POLLIN, 0};
        if (argc > 3 && poll(&asked, 1, 1000) == 0)
            break;
        if (recv(fd, text, sizeof text - 1, 0) < 0)
            break;
        CHECK(sscanf(text, "%d:%d", &amount, &number) == 2 && number < 10);
        if (fixed && seen[number]++)
            continue;
        sum += amount;
        if (number < last)
            puts("out of order");
        last = number;
    }
    printf("%d\n", sum);
    return 0;
}
