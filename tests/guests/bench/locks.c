// Touches so many megabytes; then so many threads lock and unlock, each its own mutex, and write beside it, for ever.
#include "guest.h"

enum { PAGE = 4096, MAX_THREADS = 8 };
static struct {
    _Alignas(64) pthread_mutex_t mutex;
    unsigned long counter;
} cells[MAX_THREADS];

static void *worker(void *argument) {
    for (intptr_t me = (intptr_t)argument;;) {
        pthread_mutex_lock(&cells[me].mutex);
        cells[me].counter++;
        pthread_mutex_unlock(&cells[me].mutex);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    long threads = atol(argv[1]);
    size_t length = (size_t)atol(argv[2]) << 20;
    CHECK(0 < threads && threads <= MAX_THREADS);
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (size_t i = 0; i < length; i += PAGE)
        *(size_t *)(memory + i) = i + 1;
    pthread_t last = 0;
    for (intptr_t i = 0; i < threads; i++) {
        OK(pthread_mutex_init(&cells[i].mutex, NULL));
        last = start(worker, (void *)i);
    }
    join(last);
}
