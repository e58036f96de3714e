// A line is read from a stream, and then a block, while another thread looks at where they go.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static char line[32], block[8];

static void *read_both(void *argument) {
    CHECK(fgets(line, sizeof line, argument) != NULL);
    CHECK(fread(block, 1, sizeof block, argument) == sizeof block);
    return NULL;
}

int main(void) {
    char content[] = "a line\n12345678";
    FILE *stream = fmemopen(content, sizeof content - 1, "r");
    CHECK(stream);
    pthread_t thread = start(read_both, stream);
    // Neither, both, but never one without the other?
    assert((line[0] == 0) == (block[0] == 0));
    join(thread);
}
