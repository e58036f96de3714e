// A server in which one client can have the other thrown out. Events that were fetched before that may be about who is gone.
// Called as stale PORT buggy|fixed
#include "net.h"
#include <sys/epoll.h>

static int open_fd[16];

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int listener = listen_at(atoi(argv[1])), fixed = !strcmp(argv[2], "fixed"), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, found[8];
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0);
    for (int kicked = 0; !kicked;) {
        int count = epoll_wait(set, found, 8, -1);
        for (int i = 0; i < count; i++) {
            char line[64];
            int fd = found[i].data.fd;
            if (fd == listener) {
                fd = event.data.fd = accept(listener, NULL, NULL);
                CHECK(fd < 16);
                open_fd[fd] = 1;
                CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
                continue;
            }
            if (fixed && !open_fd[fd])
                continue;
            ssize_t length = read(fd, line, sizeof line);
            CHECK(length >= 0);
            printf("%.*s", (int)length, line);
            if (length == 5 && !memcmp(line, "kick\n", 5)) {
                for (int other = 0; other < 16; other++)
                    if (other != fd && open_fd[other]) {
                        close(other);
                        open_fd[other] = 0;
                    }
                kicked = 1;
            }
        }
    }
    return 0;
}
