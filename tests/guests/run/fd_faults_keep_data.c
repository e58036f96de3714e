// What finds no memory to go to is not lost where it comes from a stream.
#include "guest.h"
#include <sys/socket.h>

// Volatile, or the compiler warns of what is meant.
static char *volatile nowhere = (char *)16;

static void keeps(int from, int to, int is_socket) {
    char buffer[8];
    CHECK(write(to, "abcdef", 6) == 6);
    FAILS(read(from, nowhere, 4), EFAULT);
    if (is_socket)
        FAILS(recv(from, nowhere, 4, 0), EFAULT);
    CHECK(read(from, buffer, 4) == 4 && memcmp(buffer, "abcd", 4) == 0);
    CHECK(read(from, buffer, 4) == 2 && memcmp(buffer, "ef", 2) == 0);
}

int main(void) {
    int ends[2];
    char buffer[8];
    CHECK(pipe(ends) == 0);
    keeps(ends[0], ends[1], 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    keeps(ends[0], ends[1], 1);
    // A datagram is.
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    CHECK(write(ends[1], "abc", 3) == 3);
    FAILS(recv(ends[0], nowhere, 4, 0), EFAULT);
    FAILS(recv(ends[0], buffer, 4, MSG_DONTWAIT), EAGAIN);
    puts("kept");
    return 0;
}
