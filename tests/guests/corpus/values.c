// Values that a schedule makes wrong: atomicity and order violations, with locks, with atomics and with neither.
#include "corpus.h"

MUTEX(m);
MUTEX(m2);
COND(cond);
static int x, y, n, done, stage;
static atomic_int ax, ay, aturn, aflag[2], acount;
static int *pointer;

// Two deposits, read and written under separate locks of the same mutex (account).
THREAD(deposits) {
    LOCK(m);
    int balance = x;
    if (bad) UNLOCK(m), LOCK(m);
    x = balance + 10;
    UNLOCK(m);
    return 0;
}
static void account(void) { TOGETHER(deposits, deposits); assert(x == 20); }

// Money is on its way while somebody counts it.
THREAD(transfers) {
    LOCK(m), x -= 5;
    if (bad) UNLOCK(m), LOCK(m);
    y += 5, UNLOCK(m);
    return 0;
}
THREAD(counts) { LOCK(m); assert(x + y == 10); UNLOCK(m); return 0; }
static void transfer(void) { x = 10; TOGETHER(transfers, counts); }

// A driver is stopped while a request is on its way in (bluetooth).
static atomic_int pending = 1, stopping, stopped;
THREAD(requests) {
    if (bad && atomic_load(&stopping)) return 0;
    atomic_fetch_add(&pending, 1);
    if (bad || !atomic_load(&stopping)) {
        assert(!atomic_load(&stopped));
    }
    if (atomic_fetch_sub(&pending, 1) == 1) atomic_store(&stopped, 1);
    return 0;
}
THREAD(stops) {
    atomic_store(&stopping, 1);
    if (atomic_fetch_sub(&pending, 1) == 1) atomic_store(&stopped, 1);
    return 0;
}
static void driver(void) { TOGETHER(requests, stops); }

// Three threads that together come to a sum (lazy01).
THREAD(adds_one) { LOCK(m), x++, UNLOCK(m); return 0; }
THREAD(adds_two) { LOCK(m), x += 2, UNLOCK(m); return 0; }
THREAD(looks) { LOCK(m); if (bad) assert(x < 3); else assert(x <= 3); UNLOCK(m); return 0; }
static void lazy(void) { TOGETHER(adds_one, adds_two, looks); }

// Two stages, the second of which must see the first (twostage).
THREAD(two_stages) { LOCK(m), x = 1, UNLOCK(m), LOCK(m2), y = x + 1, UNLOCK(m2); return 0; }
THREAD(reads_stages) {
    int first, second;
    LOCK(m), first = x, UNLOCK(m);
    if (first == 0 && !bad) return 0;
    LOCK(m2), second = y, UNLOCK(m2);
    if (bad) assert(first == 0 || second == 2);
    else assert(second == 0 || second == 2);
    return 0;
}
static void two_stage(void) { TOGETHER(two_stages, reads_stages); }

// One variable, two locks (wronglock).
static volatile int guarded;
THREAD(right_lock) { LOCK(m); int seen = guarded; guarded = seen + 1, UNLOCK(m); return 0; }
THREAD(wrong_lock) {
    pthread_mutex_t *lock = bad ? &m2 : &m;
    pthread_mutex_lock(lock);
    int seen = guarded;
    guarded = seen + 1;
    pthread_mutex_unlock(lock);
    return 0;
}
static void wrong_locks(void) { TOGETHER(right_lock, wrong_lock); assert(guarded == 2); }

// Two writes in the wrong order (reorder).
THREAD(sets_both) {
    if (bad) atomic_store(&ax, 1), atomic_store(&ay, 1);
    else atomic_store(&ay, 1), atomic_store(&ax, 1);
    return 0;
}
THREAD(checks_both) { if (atomic_load(&ax)) assert(atomic_load(&ay)); return 0; }
static void reorder(void) { TOGETHER(sets_both, sets_both, checks_both); }

// A queue that says it is full one element too late (queue, circular buffer).
#define ROOM 2
static int buffer[ROOM + 1], first, count;
THREAD(produces) {
    for (int i = 1; i <= 3; i++) {
        LOCK(m);
        while (count == (bad ? ROOM + 1 : ROOM)) pthread_cond_wait(&cond, &m);
        assert(count < ROOM);
        buffer[(first + count++) % ROOM] = i;
        pthread_cond_broadcast(&cond);
        UNLOCK(m);
    }
    return 0;
}
THREAD(consumes) {
    for (int i = 1; i <= 3; i++) {
        LOCK(m);
        while (count == 0) pthread_cond_wait(&cond, &m);
        int value = buffer[first];
        first = (first + 1) % ROOM, count--;
        pthread_cond_broadcast(&cond);
        UNLOCK(m);
        assert(value == i);
    }
    return 0;
}
static void bounded_queue(void) { TOGETHER(produces, consumes); }

// Checked with if, not while: woken up, but another one was faster.
THREAD(takes_one) {
    LOCK(m);
    if (bad) {
        if (n == 0) pthread_cond_wait(&cond, &m);
    } else
        while (n == 0 && !done) pthread_cond_wait(&cond, &m);
    if (bad || n > 0) n--;
    assert(n >= 0);
    UNLOCK(m);
    return 0;
}
THREAD(gives_one) { LOCK(m), n++, done = 1, pthread_cond_broadcast(&cond), UNLOCK(m); return 0; }
static void woken_for_nothing(void) { TOGETHER(takes_one, takes_one, gives_one); }

// A stack whose top is looked at before it is taken.
THREAD(pushes) { LOCK(m), n++, UNLOCK(m); return 0; }
THREAD(pops) {
    LOCK(m);
    int empty = n == 0;
    if (bad) UNLOCK(m), LOCK(m);
    if (!empty) n--;
    assert(n >= 0);
    UNLOCK(m);
    return 0;
}
static void stack(void) { TOGETHER(pushes, pops, pops); }

// Values that depend on each other (stateful01).
THREAD(doubles) { LOCK(m), x *= 2, UNLOCK(m); return 0; }
THREAD(adds) { if (!bad) { LOCK(m2); } LOCK(m), x += 10, UNLOCK(m); if (!bad) { UNLOCK(m2); } return 0; }
static void stateful(void) { x = 1; TOGETHER(doubles, adds); if (bad) assert(x == 22); else assert(x == 22 || x == 12); }

// One waits for the other's turn with a flag (sync01, sync02).
THREAD(first_turn) { LOCK(m), x = 1, stage = 1, pthread_cond_signal(&cond), UNLOCK(m); return 0; }
THREAD(second_turn) {
    LOCK(m);
    while (!bad && stage == 0) pthread_cond_wait(&cond, &m);
    assert(x == 1);
    UNLOCK(m);
    return 0;
}
static void synchronised(void) { TOGETHER(first_turn, second_turn); }

// A ring in which a token goes round (token ring).
THREAD(passes_on) {
    LOCK(m);
    int token = x;
    x = token + 1;
    if (bad) UNLOCK(m), LOCK(m);
    assert(x == token + 1);
    UNLOCK(m);
    return 0;
}
static void token_ring(void) { TOGETHER(passes_on, passes_on); }

// Set up after the thread was started that uses it (aget, pbzip2).
static int value = 7;
THREAD(uses_pointer) { assert(pointer != NULL); return 0; }
static void late_setup(void) {
    pthread_t thread;
    if (!bad) pointer = &value;
    pthread_create(&thread, NULL, uses_pointer, NULL);
    pointer = &value;
    pthread_join(thread, NULL);
}

// Taken away while it is in use.
THREAD(uses_while_open) {
    LOCK(m);
    int open = !done;
    if (bad) UNLOCK(m), LOCK(m);
    if (open) assert(!done);
    UNLOCK(m);
    return 0;
}
THREAD(closes) { LOCK(m), done = 1, UNLOCK(m); return 0; }
static void used_after_close(void) { TOGETHER(uses_while_open, closes); }

// Mutual exclusion by flags and a turn (Peterson); wrong without the turn.
static void peterson(int me) {
    atomic_store(&aflag[me], 1);
    atomic_store(&aturn, bad ? me : 1 - me);
    while (atomic_load(&aflag[1 - me]) && atomic_load(&aturn) == 1 - me) sched_yield();
    assert(atomic_fetch_add(&acount, 1) == 0);
    atomic_fetch_sub(&acount, 1);
    atomic_store(&aflag[me], 0);
}
THREAD(peterson_0) { peterson(0); return 0; }
THREAD(peterson_1) { peterson(1); return 0; }
static void petersons(void) { TOGETHER(peterson_0, peterson_1); }

// A spin lock; wrong if it is looked at before it is taken.
static void take_spin(void) {
    if (bad) {
        while (atomic_load(&ax)) sched_yield();
        atomic_store(&ax, 1);
    } else
        while (atomic_exchange(&ax, 1)) sched_yield();
}
static volatile int inside;
THREAD(spins) {
    take_spin();
    int seen = inside;
    inside = seen + 1;
    atomic_store(&ax, 0);
    return 0;
}
static void spin_lock(void) { TOGETHER(spins, spins); assert(inside == 2); }

// A lock with tickets; wrong if two can draw the same.
THREAD(draws) {
    int ticket = bad ? atomic_load(&ax) : atomic_fetch_add(&ax, 1);
    if (bad) atomic_store(&ax, ticket + 1);
    assert(atomic_fetch_add(&aflag[ticket & 1], 1) == 0);
    return 0;
}
static void tickets(void) { TOGETHER(draws, draws); }

// A counter by load and store, and by one instruction.
THREAD(increments) {
    if (bad) atomic_store(&ax, atomic_load(&ax) + 1);
    else atomic_fetch_add(&ax, 1);
    return 0;
}
static void counter(void) { TOGETHER(increments, increments); assert(atomic_load(&ax) == 2); }

// Compare and swap in a loop; wrong if its failure is ignored.
THREAD(swaps) {
    int seen = atomic_load(&ax);
    while (!atomic_compare_exchange_strong(&ax, &seen, seen + 1))
        if (bad) break;
    return 0;
}
static void compare_and_swap(void) { TOGETHER(swaps, swaps); assert(atomic_load(&ax) == 2); }

// A message and its flag.
static int message;
THREAD(sends) {
    if (bad) atomic_store(&ax, 1), atomic_store(&ay, 42);
    else atomic_store(&ay, 42), atomic_store(&ax, 1);
    message = 1;
    return 0;
}
THREAD(receives) { if (atomic_load(&ax)) assert(atomic_load(&ay) == 42); return 0; }
static void message_passing(void) { TOGETHER(sends, receives); }

// A reader that looks at the version before and after (seqlock).
static atomic_int version, low, high;
THREAD(writes_pair) {
    if (!bad) atomic_fetch_add(&version, 1);
    atomic_store(&low, 1), atomic_store(&high, 1);
    if (!bad) atomic_fetch_add(&version, 1);
    return 0;
}
THREAD(reads_pair) {
    int before = atomic_load(&version), l = atomic_load(&low), h = atomic_load(&high);
    if (before % 2 == 0 && before == atomic_load(&version)) assert(l == h);
    return 0;
}
static void seqlock(void) { TOGETHER(writes_pair, reads_pair); }

// Made once, looked for twice (double-checked).
static _Atomic(int *) instance;
static atomic_int made;
THREAD(gets) {
    if (atomic_load(&instance) == NULL) {
        LOCK(m);
        if (bad || atomic_load(&instance) == NULL) atomic_fetch_add(&made, 1), atomic_store(&instance, &value);
        UNLOCK(m);
    }
    return 0;
}
static void singleton(void) { TOGETHER(gets, gets); assert(atomic_load(&made) == 1); }

// References that are counted; the last one frees.
static atomic_int references = 2, freed;
THREAD(lets_go) {
    if (bad) {
        atomic_fetch_sub(&references, 1);
        if (atomic_load(&references) == 0) atomic_fetch_add(&freed, 1);
    } else if (atomic_fetch_sub(&references, 1) == 1)
        atomic_fetch_add(&freed, 1);
    return 0;
}
static void reference_count(void) { TOGETHER(lets_go, lets_go); assert(atomic_load(&freed) == 1); }

// Work that is stolen from the other end of a queue (work stealing).
static atomic_int head, tail = 1, taken;
THREAD(owner) {
    int t = atomic_fetch_sub(&tail, 1) - 1;
    if (bad) {
        if (atomic_load(&head) <= t) atomic_fetch_add(&taken, 1);
        return 0;
    }
    int h = 0;
    if (t == 0 && atomic_compare_exchange_strong(&head, &h, 1)) atomic_fetch_add(&taken, 1);
    return 0;
}
THREAD(thief) {
    int h = atomic_load(&head);
    if (h >= atomic_load(&tail) && !bad) return 0;
    if (bad) {
        if (h < 1) atomic_store(&head, h + 1), atomic_fetch_add(&taken, 1);
    } else if (atomic_compare_exchange_strong(&head, &h, h + 1))
        atomic_fetch_add(&taken, 1);
    return 0;
}
static void work_stealing(void) { TOGETHER(owner, thief); assert(atomic_load(&taken) <= 1); }

// Phases between barriers (streamcluster).
static pthread_barrier_t barrier;
static int parts[2];
THREAD(phases) {
    int me = (int)(long)argument;
    LOCK(m), parts[me] = 1, UNLOCK(m);
    if (!bad) pthread_barrier_wait(&barrier);
    LOCK(m);
    assert(parts[1 - me] == 1);
    UNLOCK(m);
    return 0;
}
static void barrier_phases(void) { pthread_barrier_init(&barrier, NULL, 2); TOGETHER(phases, phases); }

// Readers that are counted, and a writer that waits for none (readers and writers).
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
THREAD(rw_writes) {
    if (bad) pthread_rwlock_rdlock(&rw);
    else pthread_rwlock_wrlock(&rw);
    assert(atomic_fetch_add(&acount, 1) == 0);
    atomic_fetch_sub(&acount, 1);
    pthread_rwlock_unlock(&rw);
    return 0;
}
static void read_for_write(void) { TOGETHER(rw_writes, rw_writes); }

// A semaphore with room for too many.
static sem_t room;
THREAD(enters) {
    sem_wait(&room);
    assert(atomic_fetch_add(&acount, 1) == 0);
    atomic_fetch_sub(&acount, 1);
    sem_post(&room);
    return 0;
}
static void room_for_two(void) { sem_init(&room, 0, bad ? 2 : 1); TOGETHER(enters, enters); }

// Numbers that grow together (fib): how large can they get?
static atomic_int fi = 1, fj = 1;
THREAD(fib_i) { for (int k = 0; k < 2; k++) atomic_fetch_add(&fi, atomic_load(&fj)); return 0; }
THREAD(fib_j) { for (int k = 0; k < 2; k++) atomic_fetch_add(&fj, atomic_load(&fi)); return 0; }
static void fibonacci(void) { TOGETHER(fib_i, fib_j); int most = bad ? 8 : 9; assert(atomic_load(&fi) < most && atomic_load(&fj) < most); }

// Called once, by whoever is first.
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void initialise(void) { atomic_fetch_add(&acount, 1); }
THREAD(initialises) {
    if (bad) {
        if (!atomic_load(&ax)) atomic_store(&ax, 1), initialise();
    } else
        pthread_once(&once, initialise);
    return 0;
}
static void called_once(void) { TOGETHER(initialises, initialises); assert(atomic_load(&acount) == 1); }

// A request is seen, its data is not locked with it (ldv).
static int registered, data;
THREAD(registers) {
    LOCK(m);
    if (bad) registered = 1, UNLOCK(m), LOCK(m), data = 1;
    else data = 1, registered = 1;
    UNLOCK(m);
    return 0;
}
THREAD(interrupts) { LOCK(m); if (registered) assert(data == 1); UNLOCK(m); return 0; }
static void driver_register(void) { TOGETHER(registers, interrupts); }

// Unregistered while an interrupt may still come.
THREAD(unregisters) {
    LOCK(m), data = 0;
    if (bad) UNLOCK(m), LOCK(m);
    registered = 0, UNLOCK(m);
    return 0;
}
static void driver_unregister(void) { registered = data = 1; TOGETHER(unregisters, interrupts); }

// What is counted without a lock.
static volatile int plain;
THREAD(counts_plain) {
    if (!bad) LOCK(m);
    int seen = plain;
    plain = seen + 1;
    if (!bad) UNLOCK(m);
    return 0;
}
static void plain_counter(void) { TOGETHER(counts_plain, counts_plain); assert(plain == 2); }

// Store buffering: under sequential consistency one of them sees the other.
static int seen_by[2];
THREAD(stores_x) { atomic_store(&ax, 1), seen_by[0] = atomic_load(&ay); return 0; }
THREAD(stores_y) { if (bad) seen_by[1] = atomic_load(&ax), atomic_store(&ay, 1); else atomic_store(&ay, 1), seen_by[1] = atomic_load(&ax); return 0; }
static void store_buffering(void) { TOGETHER(stores_x, stores_y); assert(seen_by[0] || seen_by[1]); }

// The result is used before the thread has ended that makes it.
static atomic_int result;
THREAD(computes) { atomic_store(&result, 5); return 0; }
static void not_joined(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, computes, NULL);
    if (!bad) pthread_join(thread, NULL);
    assert(atomic_load(&result) == 5);
    if (bad) pthread_join(thread, NULL);
}

// Two flags that are tested and set, in one go or not (Dekker without a turn, giving way).
THREAD(test_and_set) {
    int me = (int)(long)argument;
    if (bad) {
        if (atomic_load(&aflag[1 - me])) return 0;
        atomic_store(&aflag[me], 1);
    } else {
        atomic_store(&aflag[me], 1);
        if (atomic_load(&aflag[1 - me])) return 0;
    }
    assert(atomic_fetch_add(&acount, 1) == 0);
    atomic_fetch_sub(&acount, 1);
    atomic_store(&aflag[me], 0);
    return 0;
}
static void test_then_set(void) { TOGETHER(test_and_set, test_and_set); }

// A list whose head is changed without looking again.
static struct element { struct element *next; } elements[2];
static _Atomic(struct element *) list;
THREAD(inserts) {
    struct element *mine = &elements[(long)argument], *seen = atomic_load(&list);
    do mine->next = seen;
    while (!bad && !atomic_compare_exchange_strong(&list, &seen, mine));
    if (bad) atomic_store(&list, mine);
    return 0;
}
static void lock_free_list(void) {
    TOGETHER(inserts, inserts);
    int length = 0;
    for (struct element *at = atomic_load(&list); at; at = at->next) length++;
    assert(length == 2);
}

// More is taken out than was there when it was looked.
THREAD(withdraws) {
    LOCK(m);
    int enough = x >= 60;
    if (bad) UNLOCK(m), LOCK(m);
    if (enough) x -= 60;
    assert(x >= 0);
    UNLOCK(m);
    return 0;
}
static void overdraw(void) { x = 100; TOGETHER(withdraws, withdraws); }

// The largest of all; wrong if it is compared before it is locked.
THREAD(proposes) {
    int mine = (int)(long)argument + 1;
    if (bad) {
        int is_larger = mine > atomic_load(&ax);
        LOCK(m);
        if (is_larger) atomic_store(&ax, mine);
        UNLOCK(m);
    } else {
        LOCK(m);
        if (mine > atomic_load(&ax)) atomic_store(&ax, mine);
        UNLOCK(m);
    }
    return 0;
}
static void maximum(void) { TOGETHER(proposes, proposes); assert(atomic_load(&ax) == 2); }

// Numbers that are given twice.
static int given[4];
THREAD(asks_for_number) {
    LOCK(m);
    int number = n;
    if (bad) UNLOCK(m), LOCK(m);
    n = number + 1;
    assert(given[number]++ == 0);
    UNLOCK(m);
    return 0;
}
static void duplicate_number(void) { TOGETHER(asks_for_number, asks_for_number, asks_for_number); }

// A cache that both find empty.
THREAD(fills) {
    LOCK(m);
    int is_empty = !done;
    if (bad) UNLOCK(m), LOCK(m);
    if (is_empty) done = 1, n++;
    UNLOCK(m);
    return 0;
}
static void filled_twice(void) { TOGETHER(fills, fills); assert(n == 1); }

// A place in a log that is reserved, but not yet written when it is read.
static atomic_int reserved, entries[2];
THREAD(logs) {
    if (bad) {
        int at = atomic_fetch_add(&reserved, 1);
        atomic_exchange(&entries[at], 1);
    } else {
        LOCK(m);
        int at = atomic_load(&reserved);
        atomic_exchange(&entries[at], 1);
        atomic_fetch_add(&reserved, 1);
        UNLOCK(m);
    }
    return 0;
}
THREAD(reads_log) {
    int length = atomic_fetch_add(&reserved, 0);
    for (int i = 0; i < length; i++) assert(atomic_fetch_add(&entries[i], 0) == 1);
    return 0;
}
static void log_slot(void) { TOGETHER(logs, reads_log); }

PROGRAMS(P(account), P(transfer), P(driver), P(lazy), P(two_stage), P(wrong_locks), P(reorder), P(bounded_queue), P(woken_for_nothing), P(stack),
         P(stateful), P(synchronised), P(token_ring), P(late_setup), P(used_after_close), P(petersons), P(spin_lock), P(tickets), P(counter),
         P(compare_and_swap), P(message_passing), P(seqlock), P(singleton), P(reference_count), P(work_stealing), P(barrier_phases),
         P(read_for_write), P(room_for_two), P(fibonacci), P(called_once), P(driver_register), P(driver_unregister), P(plain_counter),
         P(store_buffering), P(not_joined), P(test_then_set), P(lock_free_list), P(overdraw), P(maximum), P(duplicate_number), P(filled_twice), P(log_slot))
