// A WebDAV test client with a watchdog: when it fires, the request is marked as too late. The buggy version
// starts the watchdog before there is a request, so that one that fires early follows a pointer that is still null.
// Called as webdav_client PORT buggy|fixed
#include "net.h"

struct request {
    int fd;
    atomic_int late;
};

static struct request *current;
static sem_t finished;

static void *watch(void *unused) {
    (void)unused;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    int result;
    while ((result = sem_timedwait(&finished, &until)) == -1 && errno == EINTR)
        ;
    if (result == -1 && errno == ETIMEDOUT)
        atomic_store(&current->late, 1);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int fixed = strcmp(argv[2], "fixed") == 0;
    struct request request = {0};
    pthread_t watchdog;
    char answer[1024];
    signal(SIGPIPE, SIG_IGN);
    OK(sem_init(&finished, 0, 0));
    if (!fixed)
        watchdog = start(watch, NULL);
    request.fd = connect_to(atoi(argv[1]));
    current = &request;
    if (fixed)
        watchdog = start(watch, NULL);
    const char *text = "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if (write(request.fd, text, strlen(text)) > 0)
        while (read(request.fd, answer, sizeof answer) > 0)
            ;
    CHECK(sem_post(&finished) == 0);
    OK(pthread_join(watchdog, NULL));
    close(request.fd);
    if (atomic_load(&request.late))
        puts("too late");
    return 0;
}
