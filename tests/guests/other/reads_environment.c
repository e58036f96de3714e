// Prints one variable of its environment, takes a decision by another, without a system call in between, and has no use for all the others.
#include "guest.h"
#include <assert.h>

int main(void) {
    const char *printed = getenv("PRINTED"), *decides = getenv("DECIDES");
    CHECK(printed && decides);
    puts(printed);
    fflush(stdout);
    for (int i = 0; i < atoi(decides); i++)
        write_all(1, ".");
    assert(!"the end");
}
