// Threads get their argument, and join gives what each returned, in whatever order they ran.
#include "guest.h"

static void *square(void *argument) {
    intptr_t n = (intptr_t)argument;
    return (void *)(n * n);
}

int main(void) {
    pthread_t threads[5];
    for (intptr_t i = 0; i < 5; i++)
        threads[i] = start(square, (void *)i);
    for (int i = 4; i >= 0; i--)
        printf("thread %d returned %ld\n", i, (long)(intptr_t)join(threads[i]));
}
