// With nothing given, standard input is at its end at once; isatty says no for the three standard descriptors.
#include "guest.h"

int main(void) {
    char byte;
    CHECK(read(0, &byte, 1) == 0 && getchar() == EOF);
    printf("terminals: %d %d %d\n", isatty(0), isatty(1), isatty(2));
}
