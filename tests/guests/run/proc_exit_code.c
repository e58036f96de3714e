// The exit status is passed on, modulo 256.
// exit: 44
#include "guest.h"

int main(void) {
    puts("leaving with 300");
    return 300;
}
