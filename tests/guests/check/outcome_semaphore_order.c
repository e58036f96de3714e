// A semaphore puts a before b; c is free.
// outcomes: "abc" "acb" "cab"
#include "guest.h"

static sem_t a_done;

static void *first(void *argument) {
    write_all(1, "a");
    sem_post(&a_done);
    return argument;
}

static void *second(void *argument) {
    sem_wait(&a_done);
    write_all(1, "b");
    return argument;
}

int main(void) {
    sem_init(&a_done, 0, 0);
    pthread_t one = start(first, NULL), two = start(second, NULL);
    write_all(1, "c");
    join(one);
    join(two);
}
