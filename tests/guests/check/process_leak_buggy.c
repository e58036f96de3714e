// A helper program inherits the writing end of a pipe: its parent waits for the end of the file, the helper for its parent.
// expect: deadlock
// min-preemptions: 0
#include "processes.h"

int main(int argc, char **argv) {
    if (argc > 1) {
        char byte;
        return read(0, &byte, 1) == 0 ? 0 : 1;
    }
    int data[2], work[2];
    CHECK(pipe(data) == 0 && pipe2(work, O_CLOEXEC) == 0);
    pid_t writer = CHILD(write_all(data[1], "x"));
    pid_t helper = CHILD(CHECK(dup2(work[0], 0) == 0); execl("/proc/self/exe", argv[0], "helper", NULL));
    CHECK(close(data[1]) == 0);
    char byte;
    while (read(data[0], &byte, 1) == 1)
        continue;
    CHECK(close(work[1]) == 0);
    FINE(writer);
    FINE(helper);
}
