// Two processes take turns over two pipes.
#include "processes.h"

int main(void) {
    int there[2], back[2], value = 0;
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        CHECK(close(there[1]) == 0 && close(back[0]) == 0);
        while (read(there[0], &value, sizeof value) == sizeof value) {
            value = value * 2 + 1;
            CHECK(write(back[1], &value, sizeof value) == sizeof value);
        }
        _exit(0);
    }
    CHECK(close(there[0]) == 0 && close(back[1]) == 0);
    for (int i = 0; i < 8; i++) {
        CHECK(write(there[1], &value, sizeof value) == sizeof value);
        CHECK(read(back[0], &value, sizeof value) == sizeof value);
    }
    CHECK(close(there[1]) == 0);
    FINE(pid);
    CHECK(read(back[0], &value, sizeof value) == 0);
    printf("%d\n", value);
}
