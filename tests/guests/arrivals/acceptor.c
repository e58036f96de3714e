// How many clients are accepted each time that there are some, without waiting for more.
// Called as acceptor PORT CLIENTS
#include "net.h"
#include <fcntl.h>
#include <poll.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int listener = listen_at(atoi(argv[1])), left = atoi(argv[2]);
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    while (left > 0) {
        struct pollfd asked = {listener, POLLIN, 0};
        int count = 0;
        CHECK(poll(&asked, 1, -1) == 1);
        while (accept(listener, NULL, NULL) >= 0)
            count++;
        left -= count;
        printf("%d ", count);
    }
    puts("");
    return 0;
}
