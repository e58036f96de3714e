// A sequence lock: the writer's stores and the reader's loads are plain. Both of the writer's rounds end at a lock that has nothing to do with it, so that
// the reader can come before, between and after them.
// modes: sync
// outcomes: "0 0\n" "1 1\n" "2 2\n"
#include "guest.h"

static pthread_mutex_t unrelated = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint sequence;
static atomic_int a, b;

static void publish(int value) {
    unsigned before = atomic_load_explicit(&sequence, memory_order_relaxed);
    atomic_store_explicit(&sequence, before + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&a, value, memory_order_relaxed);
    atomic_store_explicit(&b, value, memory_order_relaxed);
    atomic_store_explicit(&sequence, before + 2, memory_order_release);
}

static void *writer(void *argument) {
    publish(1);
    pthread_mutex_lock(&unrelated);
    publish(2);
    pthread_mutex_unlock(&unrelated);
    return argument;
}

static void *reader(void *argument) {
    unsigned before, after;
    int first, second;
    do {
        before = atomic_load_explicit(&sequence, memory_order_acquire);
        first = atomic_load_explicit(&a, memory_order_relaxed);
        second = atomic_load_explicit(&b, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&sequence, memory_order_relaxed);
    } while (before != after || before % 2);
    printf("%d %d\n", first, second);
    return argument;
}

int main(void) {
    pthread_t one = start(writer, NULL), other = start(reader, NULL);
    join(one);
    join(other);
}
