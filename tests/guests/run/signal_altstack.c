// A handler with SA_ONSTACK runs on the alternate stack and sees itself there; EPERM to change it meanwhile.
#include "guest.h"

enum { SIZE = 65536 };
static char stack[SIZE];
static volatile sig_atomic_t on_stack;

static void handler(int number) {
    char here;
    stack_t now, other = {.ss_flags = SS_DISABLE};
    (void)number;
    on_stack = &here >= stack && &here < stack + SIZE;
    CHECK(sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) && now.ss_sp == stack);
    FAILS(sigaltstack(&other, NULL), EPERM);
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = SIZE}, old;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&alternate, &old) == 0 && (old.ss_flags & SS_DISABLE));
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);
    printf("on the alternate stack: %d\n", on_stack);
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == 0 && old.ss_size == SIZE);
    alternate.ss_size = 100;
    FAILS(sigaltstack(&alternate, NULL), ENOMEM);
}
