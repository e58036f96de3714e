// What the C library offers beside pthreads: the threads of C11, and functions that remember something from call to call.
#include "corpus.h"
#include <threads.h>

static mtx_t a, b;
static cnd_t cond;
static int ready, seats = 1, sold;

// Two locks in two orders, and a third thread that waits for the one that may never come.
static int locks_ab(void *argument) {
    (void)argument;
    mtx_lock(&a), mtx_lock(&b), ready = 1, cnd_signal(&cond), mtx_unlock(&b), mtx_unlock(&a);
    return 0;
}
static int locks_ba(void *argument) {
    (void)argument;
    mtx_t *first = bad ? &b : &a, *second = bad ? &a : &b;
    mtx_lock(first), mtx_lock(second), mtx_unlock(second), mtx_unlock(first);
    return 0;
}
static void two_orders(void) {
    thrd_t one, other;
    mtx_init(&a, mtx_plain), mtx_init(&b, mtx_plain), cnd_init(&cond);
    thrd_create(&one, locks_ab, NULL), thrd_create(&other, locks_ba, NULL);
    mtx_lock(&b);
    while (!ready) cnd_wait(&cond, &b);
    mtx_unlock(&b);
    thrd_join(one, NULL), thrd_join(other, NULL);
}

// A seat is looked for under the lock, and sold under it once more.
static int buys(void *argument) {
    (void)argument;
    mtx_lock(&a);
    int is_free = seats > 0;
    if (bad) mtx_unlock(&a), mtx_lock(&a);
    if (is_free) seats--, sold++;
    mtx_unlock(&a);
    return 0;
}
static void last_seat(void) {
    thrd_t one, other;
    mtx_init(&a, mtx_plain);
    thrd_create(&one, buys, NULL), thrd_create(&other, buys, NULL);
    thrd_join(one, NULL), thrd_join(other, NULL);
    assert(sold == 1 && seats == 0);
}

// A string is taken apart by a function that remembers where it was, for all threads at once.
static char lines[2][8] = {"a,b,c", "d,e,f"};
THREAD(splits) {
    char *line = lines[(long)argument], *place;
    int words = 0;
    char *word = bad ? strtok(line, ",") : strtok_r(line, ",", &place);
    for (; word; word = bad ? strtok(NULL, ",") : strtok_r(NULL, ",", &place)) words++;
    assert(words == 3);
    return 0;
}
static void words(void) { TOGETHER(splits, splits); }

// A thread spins for some rounds and then sleeps, until it is woken; the second change is not announced.
static atomic_int state, sleepers;
static void sleep_while(int value) {
    for (int round = 0; round < 20; round++) {
        if (state != value) return;
        sched_yield();
    }
    mtx_lock(&a); sleepers++;
    while (state == value) cnd_wait(&cond, &a);
    sleepers--; mtx_unlock(&a);
}
static void announce(int value) { mtx_lock(&a); state = value; cnd_broadcast(&cond), mtx_unlock(&a); }
THREAD(sleeps) { sleep_while(0), sleep_while(1); return 0; }
THREAD(changes) {
    announce(1);
    if (bad) state = 2;
    else announce(2);
    return 0;
}
static void spins_then_sleeps(void) { mtx_init(&a, mtx_plain), cnd_init(&cond); TOGETHER(sleeps, changes); }

PROGRAMS(P(two_orders), P(last_seat), P(words), P(spins_then_sleeps))
