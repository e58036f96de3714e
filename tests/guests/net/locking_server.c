// Two clients, a worker for each, and two locks, which "buggy" takes in opposite orders: then the workers may wait for each other
// for ever, though main waits for clients all the time.
// Called as locking_server PLACE buggy|fixed
#include "net.h"

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int fds[2], crossed;

static void *serve(void *argument) {
    int me = (int)(long)argument, first = crossed && me;
    char line[64];
    CHECK(read_line(fds[me], line, sizeof line) > 0);
    OK(pthread_mutex_lock(&locks[first]));
    OK(pthread_mutex_lock(&locks[!first]));
    send_text(fds[me], "done\n");
    OK(pthread_mutex_unlock(&locks[!first]));
    OK(pthread_mutex_unlock(&locks[first]));
    close(fds[me]);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int listener = listen_at_place(argv[1]);
    crossed = strcmp(argv[2], "buggy") == 0;
    for (long i = 0;; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && i < 2);
        fds[i] = fd;
        start(serve, (void *)i);
    }
}
