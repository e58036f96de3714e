// What orders accesses: a release store and an acquire load of a global, of a member on the heap and by a built-in, a spin lock, a semaphore, a barrier, once,
// the start and the end of a thread. Neighbours in one word are no conflict. None of this is a data race.
// options: --races
#include "guest.h"
#include <assert.h>

static struct {
    char first, second;
    short third;
    int fourth;
} neighbours;
struct box {
    int content;
    _Atomic int is_full;
};
static atomic_int is_set;
static int has_more;
static int set, more;
static atomic_flag spin = ATOMIC_FLAG_INIT;
static int counter, posted, initialised, turns[2];
static sem_t semaphore;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialise(void) { initialised = 1; }

static void count(void) {
    while (atomic_flag_test_and_set_explicit(&spin, memory_order_acquire))
        sched_yield();
    counter++;
    atomic_flag_clear_explicit(&spin, memory_order_release);
}

static void *other(void *argument) {
    struct box *box = argument;
    neighbours.second = 1;
    neighbours.fourth = 1;
    box->content = 7;
    atomic_store_explicit(&box->is_full, 1, memory_order_release);
    set = 7;
    atomic_store_explicit(&is_set, 1, memory_order_release);
    more = 7;
    __atomic_store_n(&has_more, 1, __ATOMIC_RELEASE);
    count();
    pthread_once(&once, initialise);
    assert(initialised);
    posted = 1;
    sem_post(&semaphore);
    turns[1] = 1;
    pthread_barrier_wait(&barrier);
    assert(turns[0]);
    return NULL;
}

int main(void) {
    struct box *box = calloc(1, sizeof *box);
    sem_init(&semaphore, 0, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t thread = start(other, box);
    neighbours.first = 1;
    neighbours.third = 1;
    if (box->is_full)
        assert(box->content == 7);
    if (atomic_load_explicit(&is_set, memory_order_acquire))
        assert(set == 7);
    if (__atomic_load_n(&has_more, __ATOMIC_ACQUIRE))
        assert(more == 7);
    count();
    pthread_once(&once, initialise);
    assert(initialised);
    sem_wait(&semaphore);
    assert(posted);
    turns[0] = 1;
    pthread_barrier_wait(&barrier);
    assert(turns[1]);
    join(thread);
    assert(counter == 2 && neighbours.second == 1);
    free(box);
}
