// Cancellation interrupts a blocking read; the pipe stays usable.
#include "guest.h"

static int ends[2];

static void *body(void *argument) {
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    CHECK(read(ends[0], &byte, 1) == -2);
    return argument;
}

int main(void) {
    char byte = 0;
    CHECK(pipe(ends) == 0);
    pthread_t thread = start(body, NULL);
    write_all(ends[1], "a");
    OK(pthread_cancel(thread));
    CHECK(join(thread) == PTHREAD_CANCELED);
    write_all(ends[1], "b");
    while (byte != 'b')
        CHECK(read(ends[0], &byte, 1) == 1);
    puts("reader cancelled, pipe works");
}
