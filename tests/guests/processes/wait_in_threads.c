// Any thread may wait for any child of its process.
#include "processes.h"

static void *waits(void *argument) {
    return (void *)(intptr_t)exit_of((pid_t)(intptr_t)argument);
}

static void *makes(void *argument) {
    *(pid_t *)argument = CHILD(_exit(7));
    return NULL;
}

int main(void) {
    turn go = make_turn();
    pid_t one = CHILD(await(&go); _exit(1)), two = CHILD(await(&go); _exit(2)), three;
    pthread_t first = start(waits, (void *)(intptr_t)one), second = start(waits, (void *)(intptr_t)two);
    give(&go);
    give(&go);
    printf("%d\n", (int)(intptr_t)join(first));
    printf("%d\n", (int)(intptr_t)join(second));
    join(start(makes, &three));
    printf("made by a thread that is gone: %d\n", exit_of(three));
}
