// Memory may run out: malloc then says so, whichever calls it tries.
// options: --faults nomemory
// outcomes: "none" "some"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    // Not from what the start of the program has left over.
    char *block = malloc(1 << 20);
    const char *text = block ? "some" : "none";
    (void)!write(1, text, 4);
    return 0;
}
