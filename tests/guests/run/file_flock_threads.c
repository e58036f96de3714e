// A blocking flock waits until the other thread's open file gives its lock up.
#include "guest.h"
#include <sys/file.h>

static volatile int counter;

static void *body(void *argument) {
    int fd = open("lock", O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0);
    for (int i = 0; i < 10; i++) {
        CHECK(flock(fd, LOCK_EX) == 0);
        int seen = counter;
        sched_yield();
        counter = seen + 1;
        CHECK(flock(fd, LOCK_UN) == 0);
    }
    CHECK(close(fd) == 0);
    return argument;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("counter %d\n", counter);
}
