// exit() in a thread that is not main ends the whole process with its status and runs atexit handlers.
// exit: 7
#include "guest.h"

static void goodbye(void) { puts("atexit ran"); }

static void *body(void *argument) {
    puts("thread exits the process");
    exit(7);
    return argument;
}

int main(void) {
    CHECK(atexit(goodbye) == 0);
    start(body, NULL);
    for (;;)
        pause();
}
