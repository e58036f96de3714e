// A server that has one name to give away. Like many, it answers when the connection can be written to, looks once more whether all is out, and hears that client again after a
// time only. Who has the name gives it back by saying something more; by then the next client may have come. `+` is a client that got the name, `-` one that did not.
// Called as penalty PORT WAITS
#include "net.h"
#include <sys/epoll.h>

enum { CLIENTS = 2 };

static int set;

static void watch(int how, int fd, int events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    CHECK(epoll_ctl(set, how, fd, &event) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int listening = listen_at(atoi(argv[1])), holder = -1, waits = 0, answered = 0;
    set = epoll_create1(0);
    watch(EPOLL_CTL_ADD, listening, EPOLLIN);
    for (int left = CLIENTS; left > 0;) {
        struct epoll_event event;
        char text[64];
        int count = epoll_wait(set, &event, 1, 1000), fd = event.data.fd;
        CHECK(count >= 0);
        if (count == 0) {
            if (waits > 0 && --waits == 0)
                watch(EPOLL_CTL_MOD, holder, EPOLLIN);
        } else if (fd == listening) {
            watch(EPOLL_CTL_ADD, accept(listening, NULL, NULL), EPOLLIN);
        } else if (event.events & EPOLLOUT) {
            if (!answered++) {
                CHECK(write(fd, "yes\n", 4) == 4);
            } else {
                watch(EPOLL_CTL_MOD, fd, 0);
                waits = atoi(argv[2]);
            }
        } else {
            int got = read(fd, text, sizeof text);
            if (got > 0 && fd != holder)
                printf("%.*s%c", got - 1, text, holder < 0 ? '+' : '-');
            if (got > 0 && holder < 0) {
                holder = fd;
                answered = 0;
                watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
                continue;
            }
            holder = fd == holder ? -1 : holder;
            close(fd);
            left--;
        }
    }
    puts("");
    return 0;
}
