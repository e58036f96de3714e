// An event loop with a worker that reports finished jobs by an eventfd. The loop must reset it before it looks for what is finished, or it
// resets what was said of a job after the look.
// Called as wakeup PORT buggy|fixed
#include "net.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int finished, jobs[2], wakes;

static void *worker(void *unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        char job;
        uint64_t one = 1;
        CHECK(read(jobs[0], &job, 1) == 1);
        pthread_mutex_lock(&lock);
        finished++;
        pthread_mutex_unlock(&lock);
        CHECK(write(wakes, &one, sizeof one) == sizeof one);
    }
    return NULL;
}

static int look(void) {
    pthread_mutex_lock(&lock);
    int found = finished;
    finished = 0;
    pthread_mutex_unlock(&lock);
    return found;
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int listener = listen_at(atoi(argv[1])), fixed = !strcmp(argv[2], "fixed"), set = epoll_create1(0), done = 0;
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t thread;
    wakes = eventfd(0, 0);
    CHECK(pipe(jobs) == 0);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        event.data.fd = accept(listener, NULL, NULL);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event) == 0);
    }
    event.data.fd = wakes;
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, wakes, &event) == 0);
    while (done < 2) {
        char line[64];
        uint64_t count;
        CHECK(epoll_wait(set, &event, 1, -1) == 1);
        if (event.data.fd != wakes) {
            CHECK(read(event.data.fd, line, sizeof line) > 0);
            CHECK(write(jobs[1], line, 1) == 1);
        } else if (fixed) {
            CHECK(read(wakes, &count, sizeof count) == sizeof count);
            done += look();
        } else {
            done += look();
            CHECK(read(wakes, &count, sizeof count) == sizeof count);
        }
    }
    puts("done");
    return 0;
}
