// Double-checked initialisation that says so too early: who comes between the flag and the value uses what is not there yet.
// expect: assert
// min-preemptions: 1
// modes: sync
#include "guest.h"
#include <assert.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, unrelated = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_ready;
static int value;

static int compute(void) {
    pthread_mutex_lock(&unrelated);
    pthread_mutex_unlock(&unrelated);
    return 42;
}

static int get(void) {
    if (!atomic_load_explicit(&is_ready, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load_explicit(&is_ready, memory_order_relaxed)) {
            atomic_store_explicit(&is_ready, 1, memory_order_release);
            value = compute();
        }
        pthread_mutex_unlock(&lock);
    }
    return value;
}

static void *user(void *argument) {
    assert(get() == 42);
    return argument;
}

int main(void) {
    pthread_t one = start(user, NULL), other = start(user, NULL);
    join(one);
    join(other);
}
