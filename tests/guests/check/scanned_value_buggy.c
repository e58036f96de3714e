// A value is scanned from a text while another thread looks at it twice.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static volatile int value;

static void *scan(void *argument) {
    CHECK(sscanf(argument, "value %d", (int *)&value) == 1);
    return NULL;
}

int main(void) {
    pthread_t thread = start(scan, "value 7");
    int first = value, second = value;
    assert(first == second);
    join(thread);
}
