// Two processes count in shared memory without a lock: one of the additions is lost.
// expect: assert
// min-preemptions: 0
#include "processes.h"
#include <assert.h>

static volatile int *count;

static void add(void) {
    int seen = *count;
    sched_yield();
    *count = seen + 1;
}

int main(void) {
    count = shared_memory(4096);
    pid_t pid = CHILD(add());
    add();
    FINE(pid);
    assert(*count == 2);
}
