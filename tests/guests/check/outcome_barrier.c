// Letters before the barrier come in any order, but all before those behind it.
// outcomes: "abAB" "abBA" "baAB" "baBA"
#include "guest.h"

static pthread_barrier_t barrier;

static void *body(void *argument) {
    const char *letters = argument;
    CHECK(write(1, letters, 1) == 1);
    pthread_barrier_wait(&barrier);
    CHECK(write(1, letters + 1, 1) == 1);
    return NULL;
}

int main(void) {
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t one = start(body, "aA"), two = start(body, "bB");
    join(one);
    join(two);
}
