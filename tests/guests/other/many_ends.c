// Three threads, each of which ends the process with a status of its own as soon as it can: as many different ends as threads, for tests that count violations.
#include "guest.h"

static void *end(void *argument) {
    _exit((int)(intptr_t)argument);
}

int main(void) {
    for (intptr_t status = 1; status <= 3; status++)
        start(end, (void *)status);
    pause();
}
