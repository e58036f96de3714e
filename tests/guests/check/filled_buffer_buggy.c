// A system call fills a buffer that another thread looks at.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static char buffer[8];
static int ends[2];

static void *receive(void *argument) {
    CHECK(read(ends[0], buffer, sizeof buffer) == 5);
    return argument;
}

int main(void) {
    CHECK(pipe(ends) == 0 && write(ends[1], "hello", 5) == 5);
    pthread_t thread = start(receive, NULL);
    assert(buffer[0] == 0);
    join(thread);
}
