// A pipe from parent to child: the end of file comes when the last writer, in whatever process, has closed it.
#include "processes.h"

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        char byte;
        CHECK(close(ends[1]) == 0);
        while (read(ends[0], &byte, 1) == 1)
            putchar(byte);
        puts("end of file");
        exit(0);
    }
    pid_t second = CHILD(write_all(ends[1], "from the second\n"));
    FINE(second);
    write_all(ends[1], "from the parent\n");
    CHECK(close(ends[1]) == 0 && close(ends[0]) == 0);
    FINE(pid);
}
