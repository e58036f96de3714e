// Loops that look again and again for what may never come. Nobody is blocked, and no schedule ends.
#include "corpus.h"

MUTEX(m);
static atomic_int word, other, third;
static int plain;

// A lock that is tried until it is free, and never is.
THREAD(tries) { while (pthread_mutex_trylock(&m)) sched_yield(); UNLOCK(m); return 0; }
THREAD(forgets) { LOCK(m); if (!bad) UNLOCK(m); return 0; }
static void tried_lock(void) { TOGETHER(tries, forgets); }

// A value that is exchanged for another, once it is the right one.
THREAD(exchanges) {
    int expected = 1;
    while (!atomic_compare_exchange_strong(&word, &expected, 2)) expected = 1;
    return 0;
}
THREAD(provides) { atomic_exchange(&word, bad ? 3 : 1); return 0; }
static void exchanged(void) { TOGETHER(exchanges, provides); }

// A flag that is looked at by plain loads: with yields, with pauses, and with neither.
THREAD(yields) { while (word != 1) sched_yield(); return 0; }
THREAD(pauses) { while (word != 1) __builtin_ia32_pause(); return 0; }
THREAD(spins) { while (word != 1); return 0; }
THREAD(stores) { word = bad ? 3 : 1; return 0; }
static void yielding(void) { TOGETHER(yields, stores); }
static void pausing(void) { TOGETHER(pauses, stores); }
static void spinning(void) { TOGETHER(spins, stores); }

// More than one thing to look at.
THREAD(looks_around) { while (word != 1 || other != 1 || third != 1) sched_yield(); return 0; }
THREAD(sets_all) { word = 1; other = 1; third = bad ? 2 : 1; return 0; }
static void three_flags(void) { TOGETHER(looks_around, sets_all); }

// A value that is looked at under its lock.
THREAD(polls) {
    for (int value = 0; value != 1;) LOCK(m), value = plain, UNLOCK(m);
    return 0;
}
THREAD(sets_plain) { LOCK(m), plain = bad ? 3 : 1, UNLOCK(m); return 0; }
static void locked_poll(void) { TOGETHER(polls, sets_plain); }

// Whoever finds that he is not alone takes back what he counted, and tries again.
THREAD(counts) {
    while (atomic_fetch_add(&word, 1) != 0) atomic_fetch_sub(&word, 1), sched_yield();
    if (!bad) atomic_fetch_sub(&word, 1);
    return 0;
}
static void counted_in(void) { TOGETHER(counts, counts); }

// Tickets that are drawn in two steps: two may have the same one, and then one waits for its turn after it is over.
static atomic_int drawn, turn;
THREAD(queues) {
    int ticket = bad ? drawn : atomic_fetch_add(&drawn, 1);
    if (bad) drawn = ticket + 1;
    while (turn != ticket) sched_yield();
    turn = ticket + 1;
    return 0;
}
static void same_ticket(void) { TOGETHER(queues, queues); }

// Whether somebody else is in one of two states is asked by two loads, between which he goes from the second to the first.
static atomic_int theirs = 3, ours = 4;
THREAD(leaves) {
    if (bad) { while (theirs == 2 || theirs == 3) sched_yield(); }
    else for (int seen = theirs; seen == 2 || seen == 3; seen = theirs) sched_yield();
    ours = 0;
    return 0;
}
THREAD(waits_for_turn) {
    theirs = 2;
    while (ours != 4) sched_yield();
    theirs = 4;
    return 0;
}
static void two_looks(void) { TOGETHER(leaves, waits_for_turn); }

// A semaphore that is tried, with one post for two.
static sem_t posts;
THREAD(takes_post) { while (sem_trywait(&posts)) sched_yield(); return 0; }
THREAD(posts_both) { sem_post(&posts); if (!bad) sem_post(&posts); return 0; }
static void tried_semaphore(void) { sem_init(&posts, 0, 0); TOGETHER(takes_post, takes_post, posts_both); }

PROGRAMS(P(tried_lock), P(exchanged), P(yielding), P(pausing), P(spinning), P(three_flags), P(locked_poll), P(counted_in),
         P(same_ticket), P(two_looks), P(tried_semaphore))
