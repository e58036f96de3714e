// Classics of the literature on concurrent programs, each with its usual mistake: mutual exclusion by loads and stores, queues and stacks without locks,
// readers and writers, pools, signals.
#include "corpus.h"
#include <errno.h>
#include <signal.h>

MUTEX(m);
COND(cond);
static int x, y, n, done;
static atomic_int ax, inside, flags[2];
static void enter(void) { assert(atomic_fetch_add(&inside, 1) == 0); }
static void leave(void) { atomic_fetch_sub(&inside, 1); }

// Dekker, simplified: without looking at the other's flag again.
static void dekker_side(int me) {
    if (bad) {
        if (atomic_load(&flags[!me])) return;
        atomic_store(&flags[me], 1);
    } else {
        atomic_store(&flags[me], 1);
        if (atomic_load(&flags[!me])) { atomic_store(&flags[me], 0); return; }
    }
    enter(), leave();
    atomic_store(&flags[me], 0);
}
THREAD(dekker_0) { dekker_side(0); return 0; }
THREAD(dekker_1) { dekker_side(1); return 0; }
static void dekker(void) { TOGETHER(dekker_0, dekker_1); }

// Lamport's bakery for two: the number is chosen behind a door, or not.
static atomic_int choosing[2], number[2];
static void bakery_side(int me) {
    if (!bad) atomic_store(&choosing[me], 1);
    atomic_store(&number[me], 1 + atomic_load(&number[!me]));
    atomic_store(&choosing[me], 0);
    while (atomic_load(&choosing[!me])) sched_yield();
    for (;;) {
        int other = atomic_load(&number[!me]), mine = atomic_load(&number[me]);
        if (other == 0 || other > mine || (other == mine && me == 0)) break;
        sched_yield();
    }
    enter(), leave();
    atomic_store(&number[me], 0);
}
THREAD(bakery_0) { bakery_side(0); return 0; }
THREAD(bakery_1) { bakery_side(1); return 0; }
static void bakery(void) { TOGETHER(bakery_0, bakery_1); }

// A stack without locks: a node that is taken, given back and pushed again looks like the one that was there (ABA).
static struct node { struct node *next; int owned; } nodes[3];
static struct node *_Atomic top;
static atomic_ulong tagged;
static struct node *pop_plain(void) {
    struct node *head = atomic_load(&top);
    while (head && !atomic_compare_exchange_strong(&top, &head, head->next)) {}
    return head;
}
static void push_plain(struct node *node) {
    struct node *head = atomic_load(&top);
    do node->next = head; while (!atomic_compare_exchange_strong(&top, &head, node));
}
// The same with a count beside the index, so that no two heads are alike.
static _Atomic int nexts[4];
static int pop_tagged(void) {
    unsigned long head = atomic_load(&tagged);
    while (head & 7)
        if (atomic_compare_exchange_strong(&tagged, &head, ((head >> 3) + 1) << 3 | (unsigned)nexts[head & 7])) return head & 7;
    return 0;
}
static void push_tagged(int node) {
    unsigned long head = atomic_load(&tagged);
    do nexts[node] = head & 7; while (!atomic_compare_exchange_strong(&tagged, &head, ((head >> 3) + 1) << 3 | (unsigned)node));
}
static atomic_int taken[4];
THREAD(pops_once) {
    int node = bad ? (int)(pop_plain() - nodes) + 1 : pop_tagged();
    if (node > 0) assert(atomic_fetch_add(&taken[node], 1) == 0);
    return 0;
}
THREAD(pops_two_pushes_one) {
    int first, second;
    if (bad) {
        struct node *a = pop_plain(), *b = pop_plain();
        first = a ? (int)(a - nodes) + 1 : 0, second = b ? (int)(b - nodes) + 1 : 0;
    } else
        first = pop_tagged(), second = pop_tagged();
    if (second > 0) assert(atomic_fetch_add(&taken[second], 1) == 0);
    if (first > 0 && bad) push_plain(&nodes[first - 1]);
    if (first > 0 && !bad) push_tagged(first);
    return 0;
}
static void aba(void) {
    top = &nodes[0];
    nodes[0].next = &nodes[1];
    tagged = 1;
    nexts[1] = 2;
    TOGETHER(pops_once, pops_two_pushes_one);
    // Whatever is left on the stack was not taken.
    if (bad) for (struct node *p = pop_plain(); p; p = pop_plain()) assert(!taken[p - nodes + 1]);
    else for (int p = pop_tagged(); p; p = pop_tagged()) assert(!taken[p]);
}

// One producer, one consumer, a ring of two places: the index is moved before the place is filled.
static int ring[2];
static atomic_uint head, tail;
THREAD(ring_puts) {
    for (int i = 1; i <= 2; i++) {
        unsigned at = atomic_load(&head);
        if (bad) atomic_store(&head, at + 1), ring[at % 2] = i;
        else ring[at % 2] = i, atomic_store(&head, at + 1);
    }
    return 0;
}
THREAD(ring_gets) {
    unsigned at = atomic_load(&tail);
    if (atomic_load(&head) > at) assert(ring[at % 2] == 1), atomic_store(&tail, at + 1);
    return 0;
}
static void ring_buffer(void) { TOGETHER(ring_puts, ring_gets); }

// Readers and a writer: the count of readers is looked at without its lock.
static int readers, writing;
THREAD(reads_shared) {
    LOCK(m);
    while (writing) pthread_cond_wait(&cond, &m);
    readers++;
    UNLOCK(m);
    assert(!writing);
    LOCK(m), readers--, pthread_cond_broadcast(&cond), UNLOCK(m);
    return 0;
}
THREAD(writes_alone) {
    LOCK(m);
    if (bad) { UNLOCK(m); LOCK(m); }
    while (readers > 0 && !bad) pthread_cond_wait(&cond, &m);
    writing = 1;
    UNLOCK(m);
    LOCK(m), writing = 0, pthread_cond_broadcast(&cond), UNLOCK(m);
    return 0;
}
static void readers_writers(void) { TOGETHER(reads_shared, writes_alone); }

// A pool: the last worker to finish tells, by a count that is read after the lock was left.
static int open_jobs = 2, told;
THREAD(works) {
    LOCK(m);
    int left = --open_jobs;
    if (bad) { UNLOCK(m); sched_yield(); LOCK(m); left = open_jobs; }
    if (left == 0) told++;
    UNLOCK(m);
    return 0;
}
static void pool(void) { TOGETHER(works, works); assert(told == 1); }

// A lock that is tried, with what is done if it is not free.
THREAD(tries) {
    if (pthread_mutex_trylock(&m) == 0) { x++; UNLOCK(m); }
    else if (!bad) { LOCK(m); x++; UNLOCK(m); }
    return 0;
}
static void try_or_give_up(void) { TOGETHER(tries, tries); assert(x == 2); }

// A barrier of one's own: the generation is not looked at, so a fast thread passes twice.
static int arrived, generation;
static void my_barrier(void) {
    LOCK(m);
    int mine = generation;
    if (++arrived == 2) { arrived = 0, generation++, pthread_cond_broadcast(&cond); }
    else if (bad) { while (arrived != 0) pthread_cond_wait(&cond, &m); }
    else { while (mine == generation) pthread_cond_wait(&cond, &m); }
    UNLOCK(m);
}
static int phase[2];
static void phases(int me) {
    for (int i = 1; i <= 2; i++) {
        LOCK(m), phase[me] = i, UNLOCK(m);
        my_barrier();
        LOCK(m);
        int other = phase[!me];
        UNLOCK(m);
        assert(other >= i);
    }
}
THREAD(phases_0) { phases(0); return 0; }
THREAD(phases_1) { phases(1); return 0; }
static void own_barrier(void) { TOGETHER(phases_0, phases_1); }

// A value per thread, and one that should have been.
static _Thread_local int per_thread;
static int for_all;
THREAD(numbers) {
    int *place = bad ? &for_all : &per_thread;
    *place = (int)(long)argument;
    sched_yield();
    assert(*place == (int)(long)argument);
    return 0;
}
static void thread_local_value(void) { TOGETHER(numbers, numbers); }

// A condition that is waited for without a loop, by two.
THREAD(takes_one) {
    LOCK(m);
    if (bad) { if (n == 0) pthread_cond_wait(&cond, &m); }
    else while (n == 0 && !done) pthread_cond_wait(&cond, &m);
    if (n > 0 || bad) n--;
    assert(n >= 0);
    UNLOCK(m);
    return 0;
}
THREAD(gives_one) { LOCK(m), n = 1, done = 1, pthread_cond_broadcast(&cond), UNLOCK(m); return 0; }
static void wait_without_loop(void) { TOGETHER(takes_one, takes_one, gives_one); }

// A list of two ends: the length is kept beside it, under another lock.
MUTEX(m2);
THREAD(appends) {
    LOCK(m), x++;
    if (bad) UNLOCK(m), LOCK(m2), y++, UNLOCK(m2);
    else y++, UNLOCK(m);
    return 0;
}
THREAD(compares) {
    LOCK(m);
    if (bad) LOCK(m2);
    assert(x == y);
    if (bad) UNLOCK(m2);
    UNLOCK(m);
    return 0;
}
static void two_counts(void) { TOGETHER(appends, compares); }

// A semaphore that counts rooms: checked, then taken, instead of in one.
static sem_t rooms;
THREAD(rents) {
    if (bad) {
        int left;
        sem_getvalue(&rooms, &left);
        if (left == 0) return 0;
        ax--;
        assert(ax >= 0);
        sem_trywait(&rooms);
    } else if (sem_trywait(&rooms) == 0)
        assert(atomic_fetch_sub(&ax, 1) == 1);
    return 0;
}
static void last_room(void) { sem_init(&rooms, 0, 1), ax = 1; TOGETHER(rents, rents); }

// What a handler of a signal changes between two looks.
static volatile sig_atomic_t stopped;
static void stop(int signal) { (void)signal, stopped = 1; }
static pthread_t main_thread;
THREAD(kills) { pthread_kill(main_thread, SIGUSR1); return 0; }
static void handler(void) {
    main_thread = pthread_self();
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGUSR1, &action, 0);
    pthread_t thread;
    pthread_create(&thread, 0, kills, 0);
    int first = stopped;
    sched_yield();
    if (bad) assert(first == stopped);
    pthread_join(thread, 0);
    assert(stopped);
}

// A flag to go on that is taken back by whoever sees it first.
THREAD(sets_go) { LOCK(m), x = 1, pthread_cond_signal(&cond), UNLOCK(m); return 0; }
THREAD(takes_go) {
    LOCK(m);
    while (x == 0 && !(bad && done)) pthread_cond_wait(&cond, &m);
    if (bad) x = 0;
    UNLOCK(m);
    return 0;
}
static void token_is_back(void) { TOGETHER(sets_go, takes_go); assert(x == 1); }

PROGRAMS(P(dekker), P(bakery), P(aba), P(ring_buffer), P(readers_writers), P(pool), P(try_or_give_up), P(own_barrier),
         P(thread_local_value), P(wait_without_loop), P(two_counts), P(last_room), P(handler), P(token_is_back))
