// Deadlocks and lost signals: mutexes, read-write locks, condition variables, semaphores, barriers, joins.
#include "corpus.h"

MUTEX(a);
MUTEX(b);
MUTEX(c);
COND(cond);
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER, rw2 = PTHREAD_RWLOCK_INITIALIZER;
static sem_t s, s2;
static pthread_barrier_t barrier;
static int ready, turns;

// Two locks in two orders (deadlock01).
THREAD(ab) { LOCK(a), LOCK(b), UNLOCK(b), UNLOCK(a); return 0; }
THREAD(ba) {
    if (bad) LOCK(b), LOCK(a), UNLOCK(a), UNLOCK(b);
    else LOCK(a), LOCK(b), UNLOCK(b), UNLOCK(a);
    return 0;
}
static void lock_order(void) { TOGETHER(ab, ba); }

// A cycle of three.
THREAD(bc) { LOCK(b), LOCK(c), UNLOCK(c), UNLOCK(b); return 0; }
THREAD(ca) {
    if (bad) LOCK(c), LOCK(a), UNLOCK(a), UNLOCK(c);
    else LOCK(a), LOCK(c), UNLOCK(c), UNLOCK(a);
    return 0;
}
static void lock_cycle(void) { TOGETHER(ab, bc, ca); }

// Philosophers; the last one takes the other fork first if nothing is wrong.
static pthread_mutex_t forks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
THREAD(philosopher) {
    int i = (int)(long)argument, left = i, right = (i + 1) % 3;
    if (!bad && i == 2) left = 0, right = 2;
    LOCK(forks[left]), LOCK(forks[right]), UNLOCK(forks[right]), UNLOCK(forks[left]);
    return 0;
}
static void philosophers(void) { TOGETHER(philosopher, philosopher, philosopher); }

// A mutex that is never unlocked on one way out.
THREAD(leaves_locked) {
    LOCK(a);
    if (bad) return 0;
    UNLOCK(a);
    return 0;
}
THREAD(takes) { LOCK(a), UNLOCK(a); return 0; }
static void forgotten_unlock(void) { TOGETHER(leaves_locked, takes); }

// Locked twice by one thread.
THREAD(locks_twice) {
    LOCK(a);
    if (bad) LOCK(a), UNLOCK(a);
    UNLOCK(a);
    return 0;
}
static void relock(void) { TOGETHER(locks_twice, takes); }

// The signal comes before anybody waits.
THREAD(waits_for_signal) {
    LOCK(a);
    while (!bad && !ready) pthread_cond_wait(&cond, &a);
    if (bad) pthread_cond_wait(&cond, &a);
    UNLOCK(a);
    return 0;
}
THREAD(signals) { LOCK(a), ready = 1, pthread_cond_signal(&cond), UNLOCK(a); return 0; }
static void lost_signal(void) { TOGETHER(waits_for_signal, signals); }

// One signal for two waiters.
THREAD(waits) {
    LOCK(a);
    while (!ready) pthread_cond_wait(&cond, &a);
    UNLOCK(a);
    return 0;
}
THREAD(wakes) {
    LOCK(a), ready = 1;
    if (bad) pthread_cond_signal(&cond);
    else pthread_cond_broadcast(&cond);
    UNLOCK(a);
    return 0;
}
static void signal_for_two(void) { TOGETHER(waits, waits, wakes); }

// Waits for a condition variable with another lock held.
THREAD(waits_holding) {
    if (bad) LOCK(b);
    LOCK(a);
    while (!ready) pthread_cond_wait(&cond, &a);
    UNLOCK(a);
    if (bad) UNLOCK(b);
    return 0;
}
THREAD(needs_b) { LOCK(b), UNLOCK(b), LOCK(a), ready = 1, pthread_cond_signal(&cond), UNLOCK(a); return 0; }
static void wait_holding(void) { TOGETHER(waits_holding, needs_b); }

// Semaphores as locks, in two orders.
THREAD(sem_ab) { sem_wait(&s), sem_wait(&s2), sem_post(&s2), sem_post(&s); return 0; }
THREAD(sem_ba) {
    sem_t *first = bad ? &s2 : &s, *second = bad ? &s : &s2;
    sem_wait(first), sem_wait(second), sem_post(second), sem_post(first);
    return 0;
}
static void semaphore_order(void) { sem_init(&s, 0, 1), sem_init(&s2, 0, 1); TOGETHER(sem_ab, sem_ba); }

// A post too few.
THREAD(posts) { sem_post(&s); if (!bad) sem_post(&s); return 0; }
THREAD(takes_two) { sem_wait(&s), sem_wait(&s); return 0; }
static void missing_post(void) { sem_init(&s, 0, 0); TOGETHER(posts, takes_two); }

// A barrier for more than come.
THREAD(meets) { pthread_barrier_wait(&barrier); return 0; }
static void barrier_count(void) { pthread_barrier_init(&barrier, NULL, bad ? 3 : 2); TOGETHER(meets, meets); }

// A barrier with a lock held.
THREAD(meets_locked) {
    LOCK(a);
    if (!bad) UNLOCK(a);
    pthread_barrier_wait(&barrier);
    if (bad) UNLOCK(a);
    return 0;
}
static void barrier_locked(void) { pthread_barrier_init(&barrier, NULL, 2); TOGETHER(meets_locked, meets_locked); }

// Two read-write locks, written in two orders.
THREAD(rw_ab) {
    pthread_rwlock_wrlock(&rw), pthread_rwlock_wrlock(&rw2), pthread_rwlock_unlock(&rw2), pthread_rwlock_unlock(&rw);
    return 0;
}
THREAD(rw_ba) {
    pthread_rwlock_t *first = bad ? &rw2 : &rw, *second = bad ? &rw : &rw2;
    pthread_rwlock_wrlock(first), pthread_rwlock_wrlock(second), pthread_rwlock_unlock(second), pthread_rwlock_unlock(first);
    return 0;
}
static void rwlock_order(void) { TOGETHER(rw_ab, rw_ba); }

// A reader that becomes a writer without letting go.
THREAD(upgrades) {
    pthread_rwlock_rdlock(&rw);
    if (!bad) pthread_rwlock_unlock(&rw);
    pthread_rwlock_wrlock(&rw);
    pthread_rwlock_unlock(&rw);
    if (bad) pthread_rwlock_unlock(&rw);
    return 0;
}
static void rwlock_upgrade(void) { TOGETHER(upgrades, upgrades); }

// Waits for a thread with the lock held that it needs.
THREAD(needs_a) { LOCK(a), UNLOCK(a); return 0; }
static void join_locked(void) {
    pthread_t thread;
    LOCK(a);
    pthread_create(&thread, NULL, needs_a, NULL);
    if (!bad) UNLOCK(a);
    pthread_join(thread, NULL);
    if (bad) UNLOCK(a);
}

// A recursive mutex may be locked twice, an error-checking one says no, one with a time limit gives up.
static void kinds(int kind) {
    pthread_mutexattr_t attribute;
    pthread_mutexattr_init(&attribute), pthread_mutexattr_settype(&attribute, kind);
    pthread_mutex_init(&c, &attribute);
}
THREAD(locks_c_twice) {
    LOCK(c);
    if (pthread_mutex_lock(&c) == 0) UNLOCK(c);
    UNLOCK(c);
    return 0;
}
static void recursive(void) { kinds(bad ? PTHREAD_MUTEX_NORMAL : PTHREAD_MUTEX_RECURSIVE); TOGETHER(locks_c_twice, locks_c_twice); }
static void error_checking(void) { kinds(bad ? PTHREAD_MUTEX_NORMAL : PTHREAD_MUTEX_ERRORCHECK); TOGETHER(locks_c_twice, locks_c_twice); }
THREAD(timed_ba) {
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon), soon.tv_sec++;
    LOCK(b);
    if (bad) LOCK(a), UNLOCK(a);
    else if (pthread_mutex_timedlock(&a, &soon) == 0) UNLOCK(a);
    UNLOCK(b);
    return 0;
}
static void timed_lock(void) { TOGETHER(ab, timed_ba); }
THREAD(try_ba) {
    LOCK(b);
    if (bad) LOCK(a), UNLOCK(a);
    else if (pthread_mutex_trylock(&a) == 0) UNLOCK(a);
    UNLOCK(b);
    return 0;
}
static void try_lock(void) { TOGETHER(ab, try_ba); }

// The main thread exits while two others wait for each other.
static void exits_around(void) {
    pthread_t one, other;
    pthread_create(&one, NULL, ab, NULL), pthread_create(&other, NULL, ba, NULL);
    sleep(1);
    exit(0);
}

// A holder that ends with the lock: robust ones tell.
THREAD(dies_with_lock) { LOCK(c); return 0; }
THREAD(takes_over) {
    if (pthread_mutex_lock(&c) != 0) pthread_mutex_consistent(&c);
    UNLOCK(c);
    return 0;
}
static void owner_died(void) {
    pthread_mutexattr_t attribute;
    pthread_mutexattr_init(&attribute);
    if (!bad) pthread_mutexattr_setrobust(&attribute, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&c, &attribute);
    TOGETHER(dies_with_lock, takes_over);
}

// Turns that are passed on with the wrong condition.
THREAD(even) {
    for (int i = 0; i < 2; i++) {
        LOCK(a);
        while (turns % 2 != 0) pthread_cond_wait(&cond, &a);
        turns++;
        pthread_cond_signal(&cond);
        UNLOCK(a);
    }
    return 0;
}
THREAD(odd) {
    for (int i = 0; i < (bad ? 3 : 2); i++) {
        LOCK(a);
        while (turns % 2 != 1) pthread_cond_wait(&cond, &a);
        turns++;
        pthread_cond_signal(&cond);
        UNLOCK(a);
    }
    return 0;
}
static void ping_pong(void) { TOGETHER(even, odd); }

PROGRAMS(P(lock_order), P(lock_cycle), P(philosophers), P(forgotten_unlock), P(relock), P(lost_signal), P(signal_for_two), P(wait_holding),
         P(semaphore_order), P(missing_post), P(barrier_count), P(barrier_locked), P(rwlock_order), P(rwlock_upgrade), P(join_locked),
         P(recursive), P(error_checking), P(timed_lock), P(try_lock), P(exits_around), P(owner_died), P(ping_pong))
