// mmap, mprotect, mremap, madvise, brk, mincore and munmap do what they say, with their errors.
#include "guest.h"

int main(void) {
    char *a = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(a != MAP_FAILED && a[0] == 0);
    memset(a, 'x', 4 * 4096);
    CHECK(madvise(a, 4096, MADV_DONTNEED) == 0 && a[0] == 0 && a[4096] == 'x');
    CHECK(mprotect(a, 4096, PROT_NONE) == 0 && mprotect(a, 4096, PROT_READ) == 0 && a[1] == 0);
    CHECK(mprotect(a, 4096, PROT_READ | PROT_WRITE) == 0);
    char *grown = mremap(a, 4 * 4096, 64 * 4096, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED && grown[4 * 4096 - 1] == 'x' && grown[4 * 4096] == 0);
    CHECK(munmap(grown + 4096, 4096) == 0 && grown[2 * 4096] == 'x');
    unsigned char present[1];
    FAILS(mincore(grown + 4096, 4096, present), ENOMEM);
    char *fixed = mmap(grown + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(fixed == grown + 4096 && fixed[0] == 0);
    FAILS(mmap(fixed, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? -1 : 0, EEXIST);
    FAILS(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0, EINVAL);
    FAILS(munmap((void *)1, 4096), EINVAL);
    FAILS(mprotect((void *)4096, 4096, PROT_READ), ENOMEM);
    char *end = sbrk(0);
    CHECK(sbrk(8192) == end && (end[8191] = 7) && sbrk(-8192) == end + 8192);
    puts("memory calls");
}
