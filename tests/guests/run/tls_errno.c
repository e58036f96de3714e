// errno is per thread: an error in one thread does not show in another.
#include "guest.h"

static sem_t failed, looked;

static void *body(void *argument) {
    CHECK(close(-1) == -1 && errno == EBADF);
    CHECK(sem_post(&failed) == 0);
    CHECK(sem_wait(&looked) == 0);
    CHECK(errno == EBADF);
    return argument;
}

int main(void) {
    CHECK(sem_init(&failed, 0, 0) == 0 && sem_init(&looked, 0, 0) == 0);
    errno = ENOTTY;
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&failed) == 0);
    CHECK(errno == ENOTTY);
    CHECK(sem_post(&looked) == 0);
    join(thread);
    puts("errno is per thread");
}
