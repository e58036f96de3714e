// Writing with no reader left: SIGPIPE, and EPIPE where it is ignored or handled.
#include "guest.h"

static volatile sig_atomic_t caught;

static void handler(int number) { caught = number; }

int main(void) {
    int ends[2];
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && pipe(ends) == 0 && close(ends[0]) == 0);
    FAILS(write(ends[1], "x", 1), EPIPE);
    CHECK(signal(SIGPIPE, handler) != SIG_ERR);
    FAILS(write(ends[1], "x", 1), EPIPE);
    printf("caught SIGPIPE: %d\n", caught == SIGPIPE);
}
