// malloc, realloc, calloc and free under stress, blocks handed from thread to thread.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *shelf[16];

static unsigned next(unsigned *state) { return *state = *state * 1103515245 + 12345; }

static void *body(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < 150; i++) {
        unsigned size = 16 + (next(&state) >> 8) % 5000, slot = (next(&state) >> 8) % 16;
        unsigned char *block = i % 3 ? malloc(size) : calloc(1, size);
        CHECK(block && (block = realloc(block, size + 10)));
        block[0] = 0xa5, block[size + 9] = 0x5a;
        block[1] = (unsigned char)(size >> 8), block[2] = (unsigned char)size;
        OK(pthread_mutex_lock(&lock));
        unsigned char *old = shelf[slot];
        shelf[slot] = block;
        OK(pthread_mutex_unlock(&lock));
        if (old) {
            CHECK(old[0] == 0xa5 && old[(old[1] << 8 | old[2]) + 9] == 0x5a);
            free(old);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        threads[i] = start(body, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    puts("heap intact");
}
