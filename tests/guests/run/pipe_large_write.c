// One megabyte goes through a pipe from one thread to another in order, with one write call and many reads.
#include "guest.h"

enum { SIZE = 1 << 20 };
static int ends[2];
static unsigned char *data;

static void *writer(void *argument) {
    CHECK(write(ends[1], data, SIZE) == SIZE);
    CHECK(close(ends[1]) == 0);
    return argument;
}

int main(void) {
    CHECK((data = malloc(SIZE)) && pipe(ends) == 0);
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    pthread_t thread = start(writer, NULL);
    unsigned char block[7000];
    size_t total = 0;
    for (ssize_t got; (got = read(ends[0], block, sizeof block)) > 0; total += got)
        CHECK(memcmp(block, data + total, got) == 0);
    join(thread);
    printf("%zu bytes in order\n", total);
}
