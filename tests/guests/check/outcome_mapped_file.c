// A thread writes a file that another reads through memory: nothing orders the calls and the loads.
// outcomes: "ab\n" "ay\n" "xb\n" "xy\n"
#include "guest.h"

static int fd;
static volatile char *view;

static void *writer(void *unused) {
    CHECK(pwrite(fd, "x", 1, 0) == 1);
    CHECK(pwrite(fd, "y", 1, 1) == 1);
    return unused;
}

int main(void) {
    fd = open("file", O_RDWR | O_CREAT, 0644);
    CHECK(write(fd, "ab", 2) == 2);
    view = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(view != MAP_FAILED);
    pthread_t thread = start(writer, NULL);
    char first = view[0], second = view[1];
    join(thread);
    printf("%c%c\n", first, second);
    CHECK(unlink("file") == 0);
}
