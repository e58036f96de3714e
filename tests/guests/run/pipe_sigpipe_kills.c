// Without a handler, SIGPIPE ends the program.
// signal: 13
#include "guest.h"

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    puts("about to write");
    fflush(stdout);
    CHECK(write(ends[1], "x", 1) == -2);
}
