// An event loop that numbers the lines of its clients: who is first is for the network to say.
// Called as numbers PORT LINES
#include "net.h"
#include <sys/epoll.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int listener = listen_at(atoi(argv[1])), lines = atoi(argv[2]), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, found[8];
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0);
    for (int number = 0; number < lines;) {
        int count = epoll_wait(set, found, 8, -1);
        for (int i = 0; i < count; i++) {
            char line[64];
            int fd = found[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept(listener, NULL, NULL);
                CHECK(epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event) == 0);
                continue;
            }
            ssize_t length = read(fd, line, sizeof line);
            if (length <= 0)
                close(fd);
            else
                printf("%d %.*s", ++number, (int)length, line);
        }
    }
    return 0;
}
