// Pages that a pipe is lent have a slot each and stay apart; what cannot be moved on stays in the pipe; what there is no memory for stays, too, page by page.
#include "guest.h"
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static char memory[8192] __attribute__((aligned(4096)));

static int available(int fd) {
    char bytes[100];
    int n = read(fd, bytes, sizeof bytes);
    return n < 0 ? -errno : n;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    int pipes[2], other[2], pair[2];
    CHECK(pipe2(pipes, O_NONBLOCK) == 0 && pipe2(other, O_NONBLOCK) == 0);
    CHECK(fcntl(pipes[1], F_SETPIPE_SZ, 8192) == 8192);
    // Three pieces, two slots.
    struct iovec pieces[] = {{memory, 3}, {memory + 100, 4}, {memory + 200, 5}};
    CHECK(vmsplice(pipes[1], pieces, 3, 0) == 7);
    FAILS(fcntl(pipes[1], F_SETPIPE_SZ, 4096), EBUSY);
    FAILS(write(pipes[1], "x", 1), EAGAIN);
    FAILS(vmsplice(pipes[1], pieces, 1, SPLICE_F_NONBLOCK), EAGAIN);
    CHECK(tee(pipes[0], other[1], 100, 0) == 7 && available(other[0]) == 7);
    // A read gives the pages that there is memory for.
    struct iovec bad[] = {{memory, 5}, {(void *)1, 5}};
    CHECK(readv(pipes[0], bad, 2) == 3 && available(pipes[0]) == 4);
    // Memory that is missing ends what is lent.
    struct iovec part[] = {{memory, 3}, {(void *)1, 4}};
    CHECK(vmsplice(pipes[1], part, 2, 0) == 3 && available(pipes[0]) == 3);
    FAILS(vmsplice(pipes[1], part + 1, 1, 0), EFAULT);
    // What nobody takes stays where it is.
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && shutdown(pair[0], SHUT_WR) == 0);
    CHECK(write(pipes[1], "kept", 4) == 4);
    FAILS(splice(pipes[0], NULL, pair[0], NULL, 4, 0), EPIPE);
    CHECK(available(pipes[0]) == 4);
    // The odd part of a write goes first, and stays if the rest cannot be read.
    CHECK(mprotect(memory + 4096, 4096, PROT_NONE) == 0);
    CHECK(write(pipes[1], "ab", 2) == 2 && write(pipes[1], memory + 4000, 4097) == 1 && available(pipes[0]) == 3);
    // An event counter takes the pieces of a list one by one.
    int counter = eventfd(0, EFD_NONBLOCK);
    uint64_t one = 1;
    struct iovec values[] = {{&one, 8}, {&one, 8}, {&one, 4}, {&one, 8}};
    CHECK(writev(counter, values, 4) == 16);
    eventfd_t value;
    CHECK(eventfd_read(counter, &value) == 0 && value == 2);
    puts("as the kernel");
    return 0;
}
