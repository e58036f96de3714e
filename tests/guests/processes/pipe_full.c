// A writer waits for room, which another process makes.
#include "processes.h"

int main(void) {
    enum { SIZE = 300000 };
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        char *text = malloc(SIZE);
        for (int i = 0; i < SIZE; i++)
            text[i] = (char)(i % 251);
        CHECK(close(ends[0]) == 0);
        CHECK(write(ends[1], text, SIZE) == SIZE);
        _exit(0);
    }
    CHECK(close(ends[1]) == 0);
    unsigned sum = 0;
    int total = 0;
    char buffer[10000];
    ssize_t count;
    while ((count = read(ends[0], buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < count; i++) {
            CHECK((unsigned char)buffer[i] == total % 251);
            sum = sum * 31 + (unsigned char)buffer[i];
            total++;
        }
    FINE(pid);
    printf("%d bytes, %u\n", total, sum);
}
