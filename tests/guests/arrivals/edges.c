// An edge-triggered server of messages of four bytes. It must read until there is nothing left: no more is said of what it leaves.
// Called as edges PORT buggy|fixed
#include "net.h"
#include <fcntl.h>
#include <sys/epoll.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int listener = listen_at(atoi(argv[1])), fixed = !strcmp(argv[2], "fixed"), set = epoll_create1(0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(write(fd, "hi\n", 3) == 3);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    for (int messages = 0; messages < 2;) {
        char message[5] = "";
        CHECK(epoll_wait(set, &event, 1, -1) == 1);
        while (messages < 2 && read(fd, message, 4) == 4) {
            (void)!write(1, message, 4);
            messages++;
            if (!fixed)
                break;
        }
    }
    return 0;
}
