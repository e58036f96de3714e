// Benchmark of bugs, third part: queues and stacks without locks, or with few. Called with a name and `bad` or `fine`.
#include "corpus.h"

MUTEX(m);

// Every item is to be executed once.
#define ITEMS 3
static atomic_int executed[ITEMS];
static void execute(int item) { assert(atomic_fetch_add(&executed[item], 1) == 0); }
static void all_executed(void) {
    for (int i = 0; i < ITEMS; i++) assert(atomic_load(&executed[i]) == 1);
}

// A queue from which the owner takes at one end and thieves at the other (the THE protocol). `careless` is the mistake that is made, if one is.
static atomic_int head, tail;
static int careless;
enum { NO_LOCK = 1, LOOKS_FIRST, NO_SECOND_LOOK, FORGETS_TO_GIVE_BACK };
static int is(int mistake) { return bad && careless == mistake; }

static void steal(void) {
    if (!is(NO_LOCK)) LOCK(m);
    int h = atomic_load(&head);
    if (is(LOOKS_FIRST)) {
        if (h < atomic_load(&tail)) atomic_store(&head, h + 1), execute(h);
    } else {
        atomic_store(&head, h + 1);
        if (h < atomic_load(&tail)) execute(h);
        else if (!is(FORGETS_TO_GIVE_BACK)) atomic_store(&head, h);
    }
    if (!is(NO_LOCK)) UNLOCK(m);
}
static int take(void) {
    int t = atomic_load(&tail) - 1;
    atomic_store(&tail, t);
    if (atomic_load(&head) <= t) { execute(t); return 1; }
    if (is(NO_SECOND_LOOK)) { execute(t < 0 ? 0 : t); return 0; }
    LOCK(m);
    int h = atomic_load(&head), is_left = h <= t;
    if (!is_left) atomic_store(&tail, h);
    UNLOCK(m);
    if (is_left) execute(t);
    return is_left;
}
THREAD(owner) {
    for (int i = 0; i < ITEMS; i++) LOCK(m), atomic_store(&tail, atomic_load(&tail) + 1), UNLOCK(m);
    while (take()) {}
    return 0;
}
THREAD(thief) { steal(), steal(); return 0; }
static void stealing(int mistake) {
    careless = mistake;
    TOGETHER(owner, thief, thief);
    LOCK(m);
    if (!bad) all_executed();
    int left = atomic_load(&tail) - atomic_load(&head);
    int ran = 0;
    for (int i = 0; i < ITEMS; i++) ran += atomic_load(&executed[i]);
    assert(left <= 0 && ran == ITEMS);
    UNLOCK(m);
}
static void steal_unlocked(void) { stealing(NO_LOCK); }
static void steal_looks_first(void) { stealing(LOOKS_FIRST); }
static void take_without_second_look(void) { stealing(NO_SECOND_LOOK); }
static void steal_keeps_head(void) { stealing(FORGETS_TO_GIVE_BACK); }

// A stack by indices whose elements are marked while they are taken (Vyukov's exercise): an element comes back under another's hands.
#define CELLS 3
static struct { atomic_int next; atomic_int value; } cells[CELLS];
static atomic_int top, count;
static int safe_pop(void) {
    while (atomic_load(&count) > 1) {
        int first = atomic_load(&top), next = atomic_exchange(&cells[first].next, -1);
        if (next < 0) continue;
        int seen = first;
        if (atomic_compare_exchange_strong(&top, &seen, next)) { atomic_fetch_sub(&count, 1); return first; }
        atomic_exchange(&cells[first].next, next);
    }
    return -1;
}
static void safe_push(int cell) {
    int first = atomic_load(&top);
    do atomic_store(&cells[cell].next, first); while (!atomic_compare_exchange_strong(&top, &first, cell));
    atomic_fetch_add(&count, 1);
}
THREAD(uses_cells) {
    int me = (int)(long)argument + 1;
    for (int i = 0; i < 2; i++) {
        if (!bad) LOCK(m);
        int cell = safe_pop();
        if (!bad) UNLOCK(m);
        if (cell < 0) return 0;
        atomic_store(&cells[cell].value, me);
        assert(atomic_load(&cells[cell].value) == me);
        if (!bad) LOCK(m);
        safe_push(cell);
        if (!bad) UNLOCK(m);
    }
    return 0;
}
static void safe_stack(void) {
    for (int i = 0; i < CELLS; i++) atomic_store(&cells[i].next, i + 1 < CELLS ? i + 1 : -1);
    atomic_store(&top, 0), atomic_store(&count, CELLS);
    TOGETHER(uses_cells, uses_cells, uses_cells);
}

// A ring for several producers and consumers: a place is reserved, filled, and told of too early.
static atomic_int reserved, published, consumed;
static atomic_int places[4];
THREAD(produces) {
    int place = atomic_fetch_add(&reserved, 1);
    if (bad) {
        atomic_fetch_add(&published, 1);
        atomic_store(&places[place], place + 1);
    } else {
        atomic_store(&places[place], place + 1);
        for (int expected = place; !atomic_compare_exchange_strong(&published, &expected, place + 1); expected = place) sched_yield();
    }
    return 0;
}
THREAD(consumes) {
    int place = atomic_load(&consumed);
    if (place < atomic_load(&published) && atomic_compare_exchange_strong(&consumed, &place, place + 1))
        assert(atomic_load(&places[place]) == place + 1);
    return 0;
}
static void ring_buffer(void) { TOGETHER(produces, produces, consumes); }

PROGRAMS(P(steal_unlocked), P(steal_looks_first), P(take_without_second_look), P(steal_keeps_head), P(safe_stack), P(ring_buffer))
