// A thread that would sleep for an hour does not keep the others, or the end of the process, waiting.
// exit: 3
#include "guest.h"

static void *sleeper(void *argument) {
    sleep(3600);
    puts("never");
    return argument;
}

int main(void) {
    start(sleeper, NULL);
    sleep_ms(2);
    puts("main ends first");
    return 3;
}
