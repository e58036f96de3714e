// What was stored in one shared mapping stays there when another file is mapped, grows or shrinks, and when the mapping gets another protection.
#include "guest.h"

static char *map(int fd) {
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static int file(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    return fd;
}

int main(void) {
    int first = file("first"), second = file("second");
    char *anonymous = map(-1), *one = map(first);
    strcpy(anonymous, "nobody's"), strcpy(one, "mapped");
    char *two = map(second);
    printf("%s %s\n", anonymous, one);
    strcpy(anonymous + 4096, "nobody's second"), strcpy(one + 4096, "mapped second"), strcpy(two, "third");
    CHECK(ftruncate(second, 4096) == 0 && ftruncate(second, 12288) == 0);
    printf("%s, %s, %s\n", anonymous + 4096, one + 4096, two);
    strcpy(anonymous, "kept"), strcpy(one, "kept too"), strcpy(two, "kept as well");
    CHECK(mprotect(anonymous, 4096, PROT_READ) == 0 && mprotect(two, 8192, PROT_READ) == 0);
    printf("%s, %s, %s\n", anonymous, one, two);
    char buffer[16] = "";
    CHECK(pread(second, buffer, 12, 0) == 12);
    puts(buffer);
}
