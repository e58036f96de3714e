// A text is copied while another thread writes it: both by functions of the C library.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static char text[64] = "a";

static void *write_text(void *argument) {
    memcpy(text, argument, strlen(argument) + 1);
    return NULL;
}

int main(void) {
    pthread_t thread = start(write_text, "another text");
    char copy[64];
    strcpy(copy, text);
    assert(strcmp(copy, "a") == 0);
    join(thread);
}
