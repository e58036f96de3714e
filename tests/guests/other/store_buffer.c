// Two threads store and then look at what the other one has stored. By turns, one of them sees it. A processor may see its own store first: with
// -DBUFFERED the program does by itself what a store buffer does.
#include "../corpus.h"

static _Alignas(64) atomic_int x;
static _Alignas(64) atomic_int y;
static int seen[2];

static int store_and_look(atomic_int *ours, atomic_int *theirs) {
#ifdef BUFFERED
    int value = atomic_load_explicit(theirs, memory_order_relaxed);
    atomic_store_explicit(ours, 1, memory_order_relaxed);
    return value;
#else
    atomic_store_explicit(ours, 1, memory_order_relaxed);
    return atomic_load_explicit(theirs, memory_order_relaxed);
#endif
}
THREAD(one) { seen[0] = store_and_look(&x, &y); return 0; }
THREAD(other) { seen[1] = store_and_look(&y, &x); return 0; }

int main(void) {
    TOGETHER(one, other);
    assert(seen[0] || seen[1]);
}
