// Threads that read one descriptor share its offset: each block is read exactly once.
#include "guest.h"

static int fd;
static atomic_int seen[40];

static void *body(void *argument) {
    char block[5];
    while (read(fd, block, 5) == 5)
        atomic_fetch_add(&seen[atoi(block)], 1);
    return argument;
}

int main(void) {
    CHECK((fd = open("blocks", O_RDWR | O_CREAT, 0644)) >= 0);
    for (int i = 0; i < 40; i++) {
        char block[8];
        snprintf(block, sizeof block, "%04d", i);
        CHECK(write(fd, block, 5) == 5);
    }
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    for (int i = 0; i < 40; i++)
        CHECK(seen[i] == 1);
    puts("forty blocks, each once");
}
