// Main and a thread each write and then end the process: the other may have written before, or never.
// outcomes: "m" "mx" "x" "xm"
#include "guest.h"

static void *body(void *argument) {
    write_all(1, "x");
    _exit(0);
    return argument;
}

int main(void) {
    start(body, NULL);
    write_all(1, "m");
    _exit(0);
}
