// A memfd, mapped by processes that have its descriptor by inheritance or by exec.
#include "processes.h"

int main(int argc, char **argv) {
    if (argc > 1) {
        char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
        CHECK(text != MAP_FAILED);
        puts(text);
        strcpy(text, "from another program");
        return 0;
    }
    int fd = memfd_create("memory", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), number[16];
    CHECK(text != MAP_FAILED);
    strcpy(text, "from the first program");
    snprintf(number, sizeof number, "%d", fd);
    FINE(CHILD(execl("/proc/self/exe", argv[0], number, NULL)));
    puts(text);
    FINE(CHILD(CHECK(pwrite(fd, "by a call", 10, 0) == 10)));
    puts(text);
}
