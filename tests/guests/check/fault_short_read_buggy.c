// A length comes in one read, as a rule: a stream may deliver less, and then the rest of the length is taken for data.
// options: --faults short-read
// expect: assert
// min-preemptions: 0
#include <assert.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    int ends[2];
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    uint32_t length = 5;
    assert(write(ends[0], &length, sizeof length) == sizeof length);
    assert(write(ends[0], "hello", 5) == 5);
    uint32_t got = 0;
    assert(read(ends[1], &got, sizeof got) == sizeof got);
    char text[5];
    size_t have = 0;
    while (have < got)
        have += (size_t)read(ends[1], text + have, got - have);
    assert(write(1, text, have) == 5);
    return 0;
}
