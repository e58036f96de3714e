// The fixed version: whatever the stream delivers, it is read until it is complete.
// options: --faults short-read --fault-budget 2
// outcomes: "hello"
#include <assert.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

static void read_all(int fd, void *into, size_t size) {
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, (char *)into + have, size - have);
        assert(got > 0);
        have += (size_t)got;
    }
}

int main(void) {
    int ends[2];
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    uint32_t length = 5;
    assert(write(ends[0], &length, sizeof length) == sizeof length);
    assert(write(ends[0], "hello", 5) == 5);
    uint32_t got = 0;
    read_all(ends[1], &got, sizeof got);
    char text[5];
    read_all(ends[1], text, got);
    assert(write(1, text, got) == 5);
    return 0;
}
