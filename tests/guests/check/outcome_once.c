// pthread_once: either thread may be the one that initialises, never both.
// outcomes: "a" "b"
#include "guest.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread const char *me;

static void initialise(void) { write_all(1, me); }

static void *body(void *argument) {
    me = argument;
    pthread_once(&once, initialise);
    return NULL;
}

int main(void) {
    pthread_t one = start(body, "a"), two = start(body, "b");
    join(one);
    join(two);
}
