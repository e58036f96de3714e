// A flag that is polled in a loop without any parking point. However long the reader goes round, it sees the message in the end; and main, which does not
// wait, sees how far it has got.
// modes: sync
// outcomes: "42 before\n" "42 after\n"
#include "guest.h"

static int message;
static atomic_int is_there, is_read;

static void *reader(void *argument) {
    while (!atomic_load_explicit(&is_there, memory_order_acquire))
        ;
    *(int *)argument = message;
    atomic_store_explicit(&is_read, 1, memory_order_release);
    return NULL;
}

int main(void) {
    int seen = 0;
    pthread_mutex_t unrelated = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread = start(reader, &seen);
    message = 42;
    atomic_store_explicit(&is_there, 1, memory_order_release);
    pthread_mutex_lock(&unrelated);
    const char *when = atomic_load_explicit(&is_read, memory_order_acquire) ? "before" : "after";
    pthread_mutex_unlock(&unrelated);
    join(thread);
    printf("%d %s\n", seen, when);
}
