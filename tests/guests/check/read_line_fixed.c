// A line is read from a stream, and then a block; another thread looks at them when that one has ended.
// options: --races
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
    join(thread);
    assert((line[0] == 0) == (block[0] == 0));
}
