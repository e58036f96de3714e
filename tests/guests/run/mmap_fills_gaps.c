// Maps, one below the other, as much as threads with their stacks would: every mapping is the program's own, and can be made accessible.
#include "guest.h"
#include <sys/mman.h>

#define STACK (8UL << 20)

int main(void) {
    for (int i = 0; i < 400; i++) {
        // Sizes that leave gaps of every kind, among them such as end in the middle of a larger free range.
        size_t size = STACK + (size_t)(i % 5) * 4096;
        char *own = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(own != MAP_FAILED);
        CHECK(mprotect(own, size, PROT_READ | PROT_WRITE) == 0);
        own[0] = own[size - 1] = 1;
    }
    puts("all its own");
    return 0;
}
