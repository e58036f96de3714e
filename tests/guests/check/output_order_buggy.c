// The header must be written before the data, but nothing makes the second thread wait.
// options: --forbid ^data
// expect: output
// min-preemptions: 0
#include "guest.h"

static sem_t header_written;

static void *header(void *argument) {
    write_all(1, "header ");
    sem_post(&header_written);
    return argument;
}

static void *data(void *argument) {
    write_all(1, "data ");
    return argument;
}

int main(void) {
    sem_init(&header_written, 0, 0);
    pthread_t one = start(header, NULL), two = start(data, NULL);
    join(one);
    join(two);
}
