// Sleep sort: threads that sleep for different times end in that order.
#include "guest.h"

static void *body(void *argument) {
    int n = (int)(intptr_t)argument;
    sleep_ms(40 * n);
    printf("%d\n", n);
    return NULL;
}

int main(void) {
    int numbers[4] = {3, 1, 4, 2};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(body, (void *)(intptr_t)numbers[i]);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
}
