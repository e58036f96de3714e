// A text is printed into memory; another thread looks at what is beyond its end, and at its end when that thread has ended.
// options: --races
#include "guest.h"
#include <assert.h>

static char text[32];

static void *print(void *argument) {
    snprintf(text, sizeof text, "%s %d", (const char *)argument, 42);
    return NULL;
}

int main(void) {
    pthread_t thread = start(print, "number");
    assert(text[16] == 0);
    join(thread);
    assert(text[7] == '4');
}
