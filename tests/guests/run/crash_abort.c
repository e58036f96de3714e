// abort ends the program by SIGABRT, also with a handler that returns.
// signal: 6
#include "guest.h"

static void handler(int number) {
    (void)number;
    write_all(1, "handler\n");
}

int main(void) {
    CHECK(signal(SIGABRT, handler) != SIG_ERR);
    write_all(2, "about to abort\n");
    abort();
}
