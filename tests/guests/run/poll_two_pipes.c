// One thread polls two pipes that two others write to, until both are closed.
#include "guest.h"
#include <poll.h>

static int pipes[2][2];

static void *writer(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < 5; i++)
        write_all(pipes[me][1], me ? "y" : "x");
    CHECK(close(pipes[me][1]) == 0);
    return NULL;
}

int main(void) {
    struct pollfd fds[2];
    pthread_t threads[2];
    int counts[2] = {0}, open_pipes = 2;
    for (intptr_t i = 0; i < 2; i++) {
        CHECK(pipe(pipes[i]) == 0);
        fds[i] = (struct pollfd){pipes[i][0], POLLIN, 0};
        threads[i] = start(writer, (void *)i);
    }
    while (open_pipes > 0) {
        CHECK(poll(fds, 2, -1) >= 1);
        for (int i = 0; i < 2; i++) {
            char text[16];
            if (!fds[i].revents)
                continue;
            ssize_t got = read(fds[i].fd, text, sizeof text);
            CHECK(got >= 0);
            counts[i] += got;
            if (got == 0)
                fds[i].fd = -1, open_pipes--;
        }
    }
    join(threads[0]);
    join(threads[1]);
    printf("x %d y %d\n", counts[0], counts[1]);
}
