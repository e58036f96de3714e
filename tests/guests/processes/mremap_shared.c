// Shared memory that is made longer and shorter, and moved: it is still shared, and shows its file.
#include "processes.h"
#include <sys/mman.h>

int main(void) {
    int fd = memfd_create("file", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4 * 4096) == 0 && pwrite(fd, "abcd", 4, 4096) == 4);
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    at[0] = 'x';
    at = mremap(at, 4096, 3 * 4096, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    printf("%c %.4s\n", at[0], at + 4096);
    at[4096] = 'A';
    FINE(CHILD(CHECK(at[4096] == 'A'); at[4097] = 'B'));
    char text[5] = {0};
    CHECK(pread(fd, text, 4, 4096) == 4);
    printf("%.2s %s\n", at + 4096, text);
    char *place = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED && mremap(at, 3 * 4096, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
    FINE(CHILD(place[4098] = 'C'));
    printf("%.4s\n", place + 4096);
    CHECK(mremap(place, 8192, 4096, 0) == place);
    CHECK(pwrite(fd, "y", 1, 0) == 1);
    printf("%c\n", place[0]);
    FAILS((intptr_t)mremap(place, 4096, 0, 0), EINVAL);
    // The same without a file, which is as long as it was made.
    char *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(common != MAP_FAILED);
    common[5] = 'q';
    common = mremap(common, 4096, 8192, MREMAP_MAYMOVE);
    CHECK(common != MAP_FAILED);
    FINE(CHILD(common[6] = 'r'));
    printf("%c%c\n", common[5], common[6]);
}
