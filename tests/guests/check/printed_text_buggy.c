// A text is printed into memory while another thread looks at its end twice.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static volatile char text[32];

static void *print(void *argument) {
    snprintf((char *)text, sizeof text, "%s %d", (const char *)argument, 42);
    return NULL;
}

int main(void) {
    pthread_t thread = start(print, "number");
    char first = text[7], second = text[7];
    assert(first == second);
    join(thread);
}
