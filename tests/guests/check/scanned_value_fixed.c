// A value is scanned from a text; another thread looks at it when that one has ended.
// options: --races
#include "guest.h"
#include <assert.h>

static int value;

static void *scan(void *argument) {
    CHECK(sscanf(argument, "value %d", &value) == 1);
    return NULL;
}

int main(void) {
    pthread_t thread = start(scan, "value 7");
    join(thread);
    assert(value == 7);
}
