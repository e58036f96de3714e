// An eventfd counts for all who have it, and wakes readers in other processes.
#include "processes.h"
#include <sys/eventfd.h>

int main(void) {
    int fd = eventfd(0, 0), tokens = eventfd(3, EFD_SEMAPHORE);
    uint64_t value;
    CHECK(fd >= 0 && tokens >= 0);
    pid_t pid = CHILD(for (int i = 0; i < 3; i++) CHECK(read(tokens, &value, 8) == 8 && value == 1);
                      value = 40; CHECK(write(fd, &value, 8) == 8));
    pid_t second = CHILD(value = 2; CHECK(write(fd, &value, 8) == 8));
    FINE(pid);
    FINE(second);
    CHECK(read(fd, &value, 8) == 8);
    printf("%d\n", (int)value);
    pid = CHILD(sleep_ms(50); value = 7; CHECK(write(fd, &value, 8) == 8));
    CHECK(read(fd, &value, 8) == 8);
    printf("%d\n", (int)value);
    FINE(pid);
}
