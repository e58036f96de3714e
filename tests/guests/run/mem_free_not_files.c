// MADV_FREE is for memory without a file: of a file's it takes nothing away, not even what the program has changed there.
#include "guest.h"

int main(void) {
    int file = open("/proc/self/exe", O_RDONLY);
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped, "\177ELF", 4) == 0);
    memcpy(mapped, "mine", 4);
    FAILS(madvise(mapped, 4096, MADV_FREE), EINVAL);
    CHECK(memcmp(mapped, "mine", 4) == 0);
    char *plain = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(plain != MAP_FAILED && madvise(plain, 4096, MADV_FREE) == 0);
    // Giving up what is not there is told of, and what is there of it goes.
    char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(two + 4096, 4096) == 0);
    FAILS(madvise(two, 8192, MADV_DONTNEED), ENOMEM);
    puts("as the kernel");
    return 0;
}
