// 200 threads one after another: stacks and ids are reused, nothing leaks or runs out.
#include "guest.h"

static void *body(void *argument) {
    char page[4096];
    memset(page, 1, sizeof page);
    *(long *)argument += page[17];
    return NULL;
}

int main(void) {
    long sum = 0;
    for (int i = 0; i < 200; i++)
        join(start(body, &sum));
    printf("sum %ld\n", sum);
}
