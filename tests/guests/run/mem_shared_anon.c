// Anonymous shared memory is seen by all threads.
#include "guest.h"

static atomic_int *cells;

static void *body(void *argument) {
    for (int i = 0; i < 10; i++)
        atomic_fetch_add(&cells[(intptr_t)argument], 1);
    return NULL;
}

int main(void) {
    cells = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cells != MAP_FAILED);
    pthread_t one = start(body, (void *)0), two = start(body, (void *)1);
    join(one);
    join(two);
    printf("%d %d\n", cells[0], cells[1]);
}
