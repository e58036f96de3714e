// O_APPEND writes go to the end whatever the offset, from two descriptors.
#include "guest.h"

int main(void) {
    int a = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644), b = open("log", O_RDWR | O_APPEND);
    CHECK(a >= 0 && b >= 0);
    write_all(a, "one ");
    write_all(b, "two ");
    CHECK(lseek(a, 0, SEEK_SET) == 0);
    write_all(a, "three ");
    CHECK(lseek(a, 0, SEEK_CUR) == 14);
    CHECK(pwrite(b, "four", 4, 0) == 4);
    char text[64] = {0};
    CHECK(pread(b, text, sizeof text, 0) == 18);
    puts(text);
}
