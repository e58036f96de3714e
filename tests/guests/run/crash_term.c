// A default action that terminates: SIGTERM to oneself.
// signal: 15
#include "guest.h"

int main(void) {
    write_all(1, "goodbye\n");
    CHECK(kill(getpid(), SIGTERM) == 0);
    for (;;)
        pause();
}
