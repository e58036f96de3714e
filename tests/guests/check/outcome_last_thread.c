// Main leaves its threads behind, and the last of them all ends the process: any of them, and it tells.
// outcomes: "a" "b" "m"
#include "guest.h"

static _Thread_local char name = 'm';

static void tell(void) { write_all(1, (char[]){name, 0}); }

static void *leave(void *argument) {
    name = *(char *)argument;
    return NULL;
}

int main(void) {
    atexit(tell);
    start(leave, "a");
    start(leave, "b");
    pthread_exit(NULL);
}
