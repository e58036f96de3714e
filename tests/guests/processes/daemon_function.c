// daemon(): the caller ends, its child goes on in a session of its own.
#include "processes.h"

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        CHECK(daemon(1, 0) == 0);
        CHECK(getsid(0) == getpid());
        printf("to nowhere\n");
        write_all(ends[1], "daemon");
        exit(3);
    }
    FINE(pid);
    CHECK(close(ends[1]) == 0);
    char text[16] = {0};
    CHECK(read(ends[0], text, sizeof text) == 6);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 0);
    puts(text);
}
