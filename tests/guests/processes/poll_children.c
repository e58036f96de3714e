// A parent polls pipes of several children until all have hung up.
#include "processes.h"
#include <poll.h>

int main(void) {
    enum { COUNT = 3 };
    struct pollfd polled[COUNT];
    pid_t pids[COUNT];
    int open_count = COUNT, sum = 0;
    for (int i = 0; i < COUNT; i++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        pids[i] = CHILD(close(ends[0]); char byte = (char)(1 << i); CHECK(write(ends[1], &byte, 1) == 1));
        CHECK(close(ends[1]) == 0);
        polled[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    }
    while (open_count > 0) {
        CHECK(poll(polled, COUNT, -1) > 0);
        for (int i = 0; i < COUNT; i++) {
            char byte;
            if (polled[i].revents == 0)
                continue;
            if (read(polled[i].fd, &byte, 1) == 1) {
                sum += byte;
            } else {
                polled[i].fd = -1;
                open_count--;
            }
        }
    }
    for (int i = 0; i < COUNT; i++)
        FINE(pids[i]);
    printf("%d\n", sum);
}
