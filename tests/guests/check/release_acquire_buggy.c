// Message passing by atomics that are plain moves in machine code, in the wrong order: the flag is up before the data is there.
// expect: assert
// min-preemptions: 2
#include "guest.h"
#include <assert.h>

static atomic_int flag, data;

static void *sender(void *argument) {
    atomic_store_explicit(&flag, 1, memory_order_release);
    atomic_store_explicit(&data, 42, memory_order_release);
    return argument;
}

int main(void) {
    pthread_t thread = start(sender, NULL);
    if (atomic_load_explicit(&flag, memory_order_acquire))
        assert(atomic_load_explicit(&data, memory_order_acquire) == 42);
    join(thread);
}
