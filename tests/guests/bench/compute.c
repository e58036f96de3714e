// Computes for as long as it is told, and does nothing else.
#include "guest.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    uint64_t state = 1;
    for (long i = atol(argv[1]); i > 0; i--)
        state = state * 6364136223846793005u + (state >> 29);
    return state == 0;
}
