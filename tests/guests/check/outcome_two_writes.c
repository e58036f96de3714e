// Two threads, one write each.
// outcomes: "ab" "ba"
#include "guest.h"

static void *first(void *argument) {
    write_all(1, "a");
    return argument;
}

static void *second(void *argument) {
    write_all(1, "b");
    return argument;
}

int main(void) {
    pthread_t one = start(first, NULL), two = start(second, NULL);
    join(one);
    join(two);
}
