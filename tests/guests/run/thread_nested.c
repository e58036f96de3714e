// Threads start threads: a binary tree of them, each joined by its parent.
#include "guest.h"

static void *tree(void *argument) {
    intptr_t depth = (intptr_t)argument;
    if (depth == 0)
        return (void *)1;
    pthread_t left = start(tree, (void *)(depth - 1)), right = start(tree, (void *)(depth - 1));
    return (void *)((intptr_t)join(left) + (intptr_t)join(right));
}

int main(void) { printf("leaves %ld\n", (long)(intptr_t)tree((void *)4)); }
