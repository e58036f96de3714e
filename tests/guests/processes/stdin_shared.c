// Standard input has one offset for all processes.
// stdin: one\ntwo\nthree\n
#include "processes.h"

static void line(const char *who) {
    char byte;
    printf("%s: ", who);
    while (read(0, &byte, 1) == 1 && byte != '\n')
        putchar(byte);
    puts("");
}

int main(void) {
    line("parent");
    FINE(CHILD(line("child")));
    line("parent");
    FINE(CHILD(line("child")));
}
