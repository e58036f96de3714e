// A message passed by a plain atomic store and load, which are no parking points: the reader sees it or does not, and the steps in which they are made share
// nothing else. A reduction that believed so would show one outcome only.
// modes: sync
// outcomes: "nothing\n" "42\n"
#include "guest.h"

static int message;
static atomic_int is_there;

static void *writer(void *argument) {
    message = 42;
    atomic_store_explicit(&is_there, 1, memory_order_release);
    return argument;
}

static void *reader(void *argument) {
    if (atomic_load_explicit(&is_there, memory_order_acquire))
        printf("%d\n", message);
    else
        printf("nothing\n");
    return argument;
}

int main(void) {
    pthread_t one = start(writer, NULL), other = start(reader, NULL);
    join(one);
    join(other);
}
