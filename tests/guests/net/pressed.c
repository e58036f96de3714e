// Writes to somebody who may not read.
// Called as pressed PLACE MANNER BYTES, or with `serve:PORT` for PLACE, then it accepts one client. MANNER is
//   blocking   writes, then waits for a line and prints it
//   timed      the same, with SO_SNDTIMEO
//   held       a thread does, and has a lock that the main thread wants
//   async      writes without blocking until there is no room, and says what poll says of it
//   edges      without blocking, and after each time that there is no room waits for the next edge
#include "net.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/time.h>

static int fd;
static long bytes;
static char *data;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say_what_is_read(void) {
    char line[64];
    CHECK(read_line(fd, line, sizeof line) >= 0);
    dprintf(1, "wrote %ld, %s\n", bytes, line);
}

static void *hold(void *unused) {
    (void)unused;
    OK(pthread_mutex_lock(&lock));
    CHECK(write(fd, data, bytes) == bytes);
    OK(pthread_mutex_unlock(&lock));
    return NULL;
}

static void blocking(int is_timed) {
    struct timeval second = {.tv_sec = 1};
    if (is_timed)
        CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second) == 0);
    long written = 0;
    while (written < bytes) {
        ssize_t count = write(fd, data + written, bytes - written);
        if (count < 0) {
            dprintf(1, "%s\n", errno == EAGAIN ? "timed out" : "failed");
            return;
        }
        written += count;
    }
    say_what_is_read();
}

static void async(void) {
    long written = 0;
    ssize_t count = 0;
    while (written < bytes && (count = write(fd, data + written, bytes - written)) >= 0)
        written += count;
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    CHECK(poll(&poller, 1, 0) >= 0);
    dprintf(1, "%s, %s to write\n", count < 0 && errno == EAGAIN ? "no room" : "all written", poller.revents & POLLOUT ? "ready" : "not ready");
    fprintf(stderr, "%ld\n", written);
    // The rest is not worth waiting for.
    _exit(0);
}

static void edges(void) {
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
    for (long written = 0; written < bytes;) {
        ssize_t count = write(fd, data + written, bytes - written);
        CHECK(count >= 0 || errno == EAGAIN);
        written += count < 0 ? 0 : count;
        if (written < bytes)
            CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
    }
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    say_what_is_read();
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    const char *port = strncmp(argv[1], "serve:", 6) == 0 ? argv[1] + 6 : NULL, *manner = argv[2];
    bytes = atol(argv[3]);
    data = calloc(1, bytes);
    CHECK(data);
    fd = port ? accept(listen_at(atoi(port)), NULL, NULL) : connect_to_place(argv[1]);
    CHECK(fd >= 0);
    if (strcmp(manner, "async") == 0 || strcmp(manner, "edges") == 0)
        CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    if (strcmp(manner, "held") == 0) {
        pthread_t writer = start(hold, NULL);
        OK(pthread_mutex_lock(&lock));
        dprintf(1, "the lock was free\n");
        OK(pthread_mutex_unlock(&lock));
        OK(pthread_join(writer, NULL));
    } else if (strcmp(manner, "async") == 0) {
        async();
    } else if (strcmp(manner, "edges") == 0) {
        edges();
    } else {
        blocking(strcmp(manner, "timed") == 0);
    }
    return 0;
}
