// The second thread waits for the header.
// options: --forbid ^data
// outcomes: "header data "
#include "guest.h"

static sem_t header_written;

static void *header(void *argument) {
    write_all(1, "header ");
    sem_post(&header_written);
    return argument;
}

static void *data(void *argument) {
    sem_wait(&header_written);
    write_all(1, "data ");
    return argument;
}

int main(void) {
    sem_init(&header_written, 0, 0);
    pthread_t one = start(header, NULL), two = start(data, NULL);
    join(one);
    join(two);
}
