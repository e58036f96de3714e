// printf from many threads: lines are whole because streams lock; flockfile keeps a group together.
// unordered
#include "guest.h"

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < 5; i++)
        printf("thread %d says %d\n", me, i);
    flockfile(stdout);
    fputs("group ", stdout);
    printf("of %d\n", me);
    funlockfile(stdout);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        threads[i] = start(body, (void *)i);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
}
