// A thread that touches unmapped memory ends the process by SIGSEGV; what was written before is there.
// signal: 11
#include "guest.h"

static void *body(void *argument) {
    write_all(1, "before the crash\n");
    *(volatile int *)argument = 1;
    return NULL;
}

int main(void) {
    start(body, (void *)24);
    for (;;)
        pause();
}
