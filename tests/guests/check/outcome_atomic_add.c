// Two atomic additions: one thread sees 0, the other 1.
// outcomes: "01" "10"
#include "guest.h"

static atomic_int counter;
static int seen[2];

static void *first(void *argument) {
    seen[0] = atomic_fetch_add(&counter, 1);
    return argument;
}

static void *second(void *argument) {
    seen[1] = atomic_fetch_add(&counter, 1);
    return argument;
}

int main(void) {
    pthread_t one = start(first, NULL), two = start(second, NULL);
    join(one);
    join(two);
    printf("%d%d", seen[0], seen[1]);
}
