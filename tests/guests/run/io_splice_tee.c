// splice, tee and vmsplice move data between pipes and files, or are refused with an error a program can handle.
#include "guest.h"

int main(void) {
    int a[2], b[2];
    char text[16] = {0};
    CHECK(pipe(a) == 0 && pipe(b) == 0);
    write_all(a[1], "moved");
    ssize_t teed = tee(a[0], b[1], 5, 0);
    if (teed == -1) {
        CHECK(errno == ENOSYS || errno == EINVAL);
        CHECK(read(a[0], text, 5) == 5);
    } else {
        CHECK(teed == 5 && read(b[0], text, 5) == 5 && memcmp(text, "moved", 5) == 0);
        CHECK(splice(a[0], NULL, b[1], NULL, 5, 0) == 5 && read(b[0], text, 16) == 5);
    }
    puts(text);
}
