// Handlers nest: a second signal interrupts the first handler, unless sa_mask blocks it until that one returns.
#include "guest.h"

static void inner(int number) {
    (void)number;
    write_all(1, "inner\n");
}

static void outer(int number) {
    (void)number;
    write_all(1, "outer begins\n");
    CHECK(raise(SIGUSR2) == 0);
    write_all(1, "outer ends\n");
}

int main(void) {
    struct sigaction action = {.sa_handler = inner};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    action.sa_handler = outer;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    write_all(1, "not masked:\n");
    CHECK(raise(SIGUSR1) == 0);
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    write_all(1, "masked:\n");
    CHECK(raise(SIGUSR1) == 0);
}
