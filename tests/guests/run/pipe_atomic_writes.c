// Writes of at most PIPE_BUF bytes from several threads are never torn.
#include "guest.h"

static int ends[2];

static void *writer(void *argument) {
    char block[512];
    memset(block, 'a' + (int)(intptr_t)argument, sizeof block);
    for (int i = 0; i < 10; i++)
        CHECK(write(ends[1], block, sizeof block) == sizeof block);
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    int seen[3] = {0};
    CHECK(pipe(ends) == 0);
    for (intptr_t i = 0; i < 3; i++)
        threads[i] = start(writer, (void *)i);
    for (int i = 0; i < 30; i++) {
        char block[512];
        for (size_t got = 0; got < sizeof block;) {
            ssize_t n = read(ends[0], block + got, sizeof block - got);
            CHECK(n > 0);
            got += n;
        }
        for (size_t k = 1; k < sizeof block; k++)
            CHECK(block[k] == block[0]);
        seen[block[0] - 'a']++;
    }
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("%d %d %d\n", seen[0], seen[1], seen[2]);
}
