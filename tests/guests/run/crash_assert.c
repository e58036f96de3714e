// A failed assertion says so on standard error and ends by SIGABRT.
// signal: 6
// build: -UNDEBUG
#include "guest.h"
#undef NDEBUG
#include <assert.h>

int main(int argc, char **argv) {
    (void)argv;
    printf("asserting\n");
    fflush(stdout);
#line 1 "assertion.c"
    assert(argc == 77);
}
