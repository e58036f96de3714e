// A thread that computes without end, never twice in the same state and without a visible operation.
#include "guest.h"

static volatile unsigned long rounds;

int main(void) {
    for (;;)
        rounds++;
}
