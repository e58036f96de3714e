// N threads with K writes each, and nothing else to decide: (N*K)! / K!^N schedules. The threads write into a pipe that is full
// until main empties it with one read, so all stand before their first write when the first choice is made; each start is
// forced by waiting for it. Who is done waits for ever, and the last one prints the order and ends the process: forced again.
// args: 2 2
// modes: syscall
// executions: 6
// outcomes: "aabb" "abab" "abba" "baab" "baba" "bbaa"
#include "guest.h"

enum { CAPACITY = 65536 };
static int order[2], never[2], started[2], threads, writes;
static atomic_int written;

static void *writer(void *argument) {
    char letter = (char)('a' + (intptr_t)argument), result[64], nothing;
    write_all(started[1], "s");
    for (int i = 0; i < writes; i++)
        CHECK(write(order[1], &letter, 1) == 1);
    if (atomic_fetch_add(&written, writes) + writes == threads * writes) {
        ssize_t length = read(order[0], result, sizeof result);
        CHECK(write(1, result, length) == length);
        _exit(0);
    }
    CHECK(read(never[0], &nothing, 1) == 1);
    return NULL;
}

int main(int argc, char **argv) {
    static char block[CAPACITY];
    char byte;
    CHECK(argc == 3 && pipe(order) == 0 && pipe(never) == 0 && pipe(started) == 0);
    threads = atoi(argv[1]);
    writes = atoi(argv[2]);
    CHECK(fcntl(order[1], F_GETPIPE_SZ) == CAPACITY && write(order[1], block, CAPACITY) == CAPACITY);
    for (intptr_t i = 0; i < threads; i++) {
        start(writer, (void *)i);
        CHECK(read(started[0], &byte, 1) == 1);
    }
    CHECK(read(order[0], block, CAPACITY) == CAPACITY);
    CHECK(read(never[0], &byte, 1) == 1);
}
