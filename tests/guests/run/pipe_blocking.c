// A read waits for data, a partial read leaves the rest, and closing the last writer is the end of file.
#include "guest.h"

static int ends[2];

static void *writer(void *argument) {
    for (int i = 0; i < 4; i++) {
        char line[16];
        snprintf(line, sizeof line, "line %d\n", i);
        write_all(ends[1], line);
    }
    CHECK(close(ends[1]) == 0);
    return argument;
}

int main(void) {
    char byte;
    CHECK(pipe(ends) == 0);
    pthread_t thread = start(writer, NULL);
    while (read(ends[0], &byte, 1) == 1)
        putchar(byte);
    CHECK(read(ends[0], &byte, 1) == 0);
    join(thread);
    puts("end of file");
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
    FAILS(write(ends[0], "x", 1), EBADF);
    FAILS(read(ends[1], &byte, 1), EBADF);
}
