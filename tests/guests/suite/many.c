// Benchmark of bugs, first part: the small programs of the suites on concurrency, among them those with many threads. Called with a name and `bad` or `fine`.
#include "corpus.h"

MUTEX(m);
MUTEX(m2);
MUTEX(m3);
COND(cond);
COND(cond2);
static int x, y, n, done;

// Starts so many of one body and so many of another, and waits for all.
static void crowd(body one, int ones, body other, int others) {
    pthread_t threads[128];
    for (int i = 0; i < ones + others; i++)
        pthread_create(&threads[i], NULL, i < ones ? one : other, (void *)(long)i);
    for (int i = 0; i < ones + others; i++)
        pthread_join(threads[i], NULL);
}

// Deposit, withdrawal and a look at the balance; the look may come in between.
THREAD(deposit) { LOCK(m), x += 10, UNLOCK(m); return 0; }
THREAD(withdraw) { LOCK(m), x -= 4, UNLOCK(m); return 0; }
THREAD(balance) {
    LOCK(m);
    if (bad) assert(x == 10 + 10 - 4);
    else assert(x >= 6 && x <= 20);
    UNLOCK(m);
    return 0;
}
static void account(void) { x = 10; TOGETHER(deposit, withdraw, balance); }

// Two that take turns on a shared number, and a result that depends on how often each had its turn.
THREAD(counts_up) {
    for (int i = 0; i < 3; i++) {
        LOCK(m);
        while (n == 0 && !bad) pthread_cond_wait(&cond, &m);
        x += n ? n : 1, n = 0;
        pthread_cond_signal(&cond2);
        UNLOCK(m);
    }
    return 0;
}
THREAD(feeds) {
    for (int i = 1; i <= 3; i++) {
        LOCK(m);
        while (n != 0) pthread_cond_wait(&cond2, &m);
        n = i;
        pthread_cond_signal(&cond);
        UNLOCK(m);
    }
    return 0;
}
static void arithmetic(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, counts_up, NULL);
    pthread_create(&threads[1], NULL, feeds, NULL);
    pthread_join(threads[0], NULL);
    LOCK(m);
    assert(x == 6);
    UNLOCK(m);
    if (!bad) pthread_join(threads[1], NULL);
}

// A driver that is stopped between a request's look at the flag and its registration.
static atomic_int pending = 1, stopping, stopped;
static void release_driver(void) { if (atomic_fetch_sub(&pending, 1) == 1) atomic_store(&stopped, 1); }
THREAD(request) {
    if (bad && atomic_load(&stopping)) return 0;
    atomic_fetch_add(&pending, 1);
    if (bad || !atomic_load(&stopping)) assert(!atomic_load(&stopped));
    release_driver();
    return 0;
}
THREAD(stop) { atomic_store(&stopping, 1); release_driver(); return 0; }
static void bluetooth(void) { TOGETHER(request, stop, request); }

// Two counters of users decide who takes which room: a cycle in one schedule of many.
static int users_a, users_b;
static sem_t room_a, room_b;
static void enters(int *users, sem_t *room) { LOCK(m); if (++*users == 1) sem_wait(room); UNLOCK(m); }
static void leaves(int *users, sem_t *room) { LOCK(m); if (--*users == 0) sem_post(room); UNLOCK(m); }
THREAD(carter_one) { enters(&users_a, &room_a), enters(&users_b, &room_b), leaves(&users_b, &room_b), leaves(&users_a, &room_a); return 0; }
THREAD(carter_other) {
    sem_t *first = bad ? &room_b : &room_a, *then = bad ? &room_a : &room_b;
    sem_wait(first), sem_wait(then);
    sem_post(then), sem_post(first);
    return 0;
}
static void carter(void) {
    sem_init(&room_a, 0, 1), sem_init(&room_b, 0, 1);
    TOGETHER(carter_one, carter_one, carter_other);
}

// A ring whose reader trusts a flag that the writer sets too early.
#define RING 4
static int ring[RING], written, taken;
THREAD(ring_writer) {
    for (int i = 1; i <= RING; i++) {
        LOCK(m);
        if (bad) written++, UNLOCK(m), LOCK(m), ring[i - 1] = i;
        else ring[i - 1] = i, written++;
        UNLOCK(m);
    }
    return 0;
}
THREAD(ring_reader) {
    for (int i = 0; i < RING; i++) {
        LOCK(m);
        if (taken < written) assert(ring[taken] == taken + 1), taken++;
        UNLOCK(m);
    }
    return 0;
}
static void circular_buffer(void) { TOGETHER(ring_writer, ring_reader); }

// Two locks in two orders, after some work of its own.
THREAD(one_then_two) { LOCK(m3), x++, UNLOCK(m3), LOCK(m), LOCK(m2), y++, UNLOCK(m2), UNLOCK(m); return 0; }
THREAD(two_then_one) {
    LOCK(m3), x++, UNLOCK(m3);
    if (bad) LOCK(m2), LOCK(m);
    else LOCK(m), LOCK(m2);
    y++, UNLOCK(m2), UNLOCK(m);
    return 0;
}
static void deadlock(void) { TOGETHER(one_then_two, two_then_one); }

// Philosophers; the last one is left-handed if they are wise.
static pthread_mutex_t forks[8];
static int seats;
THREAD(philosopher) {
    int me = (int)(long)argument, left = me, right = (me + 1) % seats;
    if (!bad && me == seats - 1) left = right, right = me;
    LOCK(forks[left]), LOCK(forks[right]);
    UNLOCK(forks[right]), UNLOCK(forks[left]);
    return 0;
}
static void philosophers(int count) {
    seats = count;
    for (int i = 0; i < count; i++) pthread_mutex_init(&forks[i], NULL);
    crowd(philosopher, count, NULL, 0);
}
static void philosophers_2(void) { philosophers(2); }
static void philosophers_4(void) { philosophers(4); }
static void philosophers_5(void) { philosophers(5); }
static void philosophers_7(void) { philosophers(7); }

// A file system: 26 inodes, 26 blocks with a lock each, and one thread too many for the blocks.
#define BLOCKS 26
static pthread_mutex_t inode_locks[BLOCKS], block_locks[BLOCKS];
static int inodes[BLOCKS], busy[BLOCKS], allocated;
THREAD(allocates) {
    int me = (int)(long)argument, inode = me % BLOCKS;
    LOCK(inode_locks[inode]);
    if (inodes[inode] == 0)
        for (int tried = 0, block = (inode * 2) % BLOCKS; tried < BLOCKS; tried++, block = (block + 1) % BLOCKS) {
            LOCK(block_locks[block]);
            int is_free = !busy[block];
            if (is_free) busy[block] = 1, inodes[inode] = block + 1;
            UNLOCK(block_locks[block]);
            if (is_free) { LOCK(m), allocated++, UNLOCK(m); break; }
        }
    UNLOCK(inode_locks[inode]);
    return 0;
}
static void fsbench(void) {
    for (int i = 0; i < BLOCKS; i++) pthread_mutex_init(&inode_locks[i], NULL), pthread_mutex_init(&block_locks[i], NULL);
    crowd(allocates, 27, NULL, 0);
    assert(allocated == (bad ? BLOCKS + 1 : BLOCKS));
}

// Three steps towards a sum that nobody expects.
THREAD(adds_one) { LOCK(m), x++, UNLOCK(m); return 0; }
THREAD(adds_two) { LOCK(m), x += 2, UNLOCK(m); return 0; }
THREAD(looks) { LOCK(m); assert(bad ? x < 3 : x <= 3); UNLOCK(m); return 0; }
static void lazy(void) { TOGETHER(adds_one, adds_two, looks); }

// Phases handed on by a semaphore; one of them forgets to wait.
static sem_t phase;
THREAD(first_phase) { x = 1; sem_post(&phase); return 0; }
THREAD(second_phase) {
    if (!bad) sem_wait(&phase);
    else if (sem_trywait(&phase) != 0) sched_yield();
    assert(x == 1);
    return 0;
}
static void phases(void) { sem_init(&phase, 0, 0); TOGETHER(first_phase, second_phase); }

// A queue: one that stores and one that takes, each waiting for the other's flag, but not the right one.
#define LENGTH 8
static int queue_slots[LENGTH], head, tail, stored_all;
THREAD(enqueues) {
    for (int i = 1; i <= LENGTH; i++) {
        LOCK(m);
        queue_slots[tail++] = i;
        if (bad && i == LENGTH / 2) stored_all = 1;
        UNLOCK(m);
    }
    LOCK(m), stored_all = 1, UNLOCK(m);
    return 0;
}
THREAD(dequeues) {
    int ready;
    LOCK(m), ready = stored_all, UNLOCK(m);
    for (int i = 1; ready && i <= LENGTH; i++) {
        LOCK(m);
        assert(head < tail && queue_slots[head] == i);
        head++;
        UNLOCK(m);
    }
    return 0;
}
static void queue(void) { TOGETHER(enqueues, dequeues); }

// Two stores by each of many threads, and one that sees the first without the second.
static volatile int a, b;
THREAD(sets) {
    if (!bad) LOCK(m);
    a = 1;
    b = -1;
    if (!bad) UNLOCK(m);
    return 0;
}
THREAD(checks) {
    if (!bad) LOCK(m);
    int first = a, second = b;
    if (!bad) UNLOCK(m);
    assert((first == 0 && second == 0) || (first == 1 && second == -1) || (bad && first == 0 && second == -1));
    return 0;
}
static void reorder_3(void) { crowd(sets, 2, checks, 1); }
static void reorder_4(void) { crowd(sets, 3, checks, 1); }
static void reorder_5(void) { crowd(sets, 4, checks, 1); }
static void reorder_10(void) { crowd(sets, 9, checks, 1); }
static void reorder_20(void) { crowd(sets, 19, checks, 1); }

// A stack whose emptiness is looked at under one lock and acted on under the next.
#define HEIGHT 5
static int stack_slots[HEIGHT + 1], height;
THREAD(pushes) {
    for (int i = 0; i < HEIGHT; i++) {
        LOCK(m);
        if (bad) UNLOCK(m), LOCK(m);
        assert(height < HEIGHT);
        stack_slots[height++] = i;
        UNLOCK(m);
    }
    return 0;
}
THREAD(pops) {
    for (int i = 0; i < HEIGHT; i++) {
        LOCK(m);
        int any = height > 0;
        if (bad) UNLOCK(m), LOCK(m);
        if (any) assert(height > 0), height--;
        UNLOCK(m);
    }
    return 0;
}
static void stack(void) { TOGETHER(pushes, pops, pops); }

// A producer and a consumer that wait for each other's signal without looking whether it was given.
THREAD(gives) {
    LOCK(m);
    while (n > 0) pthread_cond_wait(&cond2, &m);
    n++, pthread_cond_broadcast(&cond);
    UNLOCK(m);
    return 0;
}
THREAD(takes) {
    LOCK(m);
    if (bad) pthread_cond_wait(&cond, &m);
    while (n == 0) pthread_cond_wait(&cond, &m);
    n--, pthread_cond_broadcast(&cond2);
    UNLOCK(m);
    return 0;
}
static void sync_flag(void) { TOGETHER(gives, takes); }
static void sync_pairs(void) { TOGETHER(gives, takes, gives, takes); }

// A token goes round four stations; the first looks whether it came round in order.
static volatile int stations[4];
THREAD(station) {
    int me = (int)(long)argument, before = (me + 3) % 4;
    if (!bad)
        for (LOCK(m); me > 0 && done < me; LOCK(m)) { UNLOCK(m); sched_yield(); }
    stations[me] = stations[before] + 1;
    if (!bad) done++, UNLOCK(m);
    return 0;
}
static void token_ring(void) {
    crowd(station, 4, NULL, 0);
    assert(stations[3] == stations[0] + 3);
}

// Two stages under two locks; one that sees a first stage whose second stage nobody has done.
THREAD(two_stages) {
    LOCK(m), x = 1;
    if (bad) UNLOCK(m);
    LOCK(m2), y = x + 1, UNLOCK(m2);
    if (!bad) UNLOCK(m);
    return 0;
}
THREAD(reads_stages) {
    int first, second;
    LOCK(m), first = x, UNLOCK(m);
    if (first == 0) return 0;
    LOCK(m2), second = y, UNLOCK(m2);
    assert(second == first + 1);
    return 0;
}
static void twostage(void) { crowd(two_stages, 1, reads_stages, 1); }
static void twostage_20(void) { crowd(two_stages, 19, reads_stages, 1); }
static void twostage_50(void) { crowd(two_stages, 49, reads_stages, 1); }
static void twostage_100(void) { crowd(two_stages, 99, reads_stages, 1); }

// One number, and threads that take the wrong lock for it.
static volatile int guarded;
THREAD(right_lock) { LOCK(m); int seen = guarded; guarded = seen + 1; UNLOCK(m); return 0; }
THREAD(wrong_lock) {
    pthread_mutex_t *lock = bad ? &m2 : &m;
    pthread_mutex_lock(lock);
    int seen = guarded;
    guarded = seen + 1;
    pthread_mutex_unlock(lock);
    return 0;
}
static void wronglock(int right, int wrong) { crowd(right_lock, right, wrong_lock, wrong); assert(guarded == right + wrong); }
static void wronglock_2(void) { wronglock(1, 1); }
static void wronglock_4(void) { wronglock(1, 3); }
static void wronglock_8(void) { wronglock(1, 7); }

PROGRAMS(P(account), P(arithmetic), P(bluetooth), P(carter), P(circular_buffer), P(deadlock), P(philosophers_2), P(philosophers_4), P(philosophers_5),
         P(philosophers_7), P(fsbench), P(lazy), P(phases), P(queue), P(reorder_3), P(reorder_4), P(reorder_5), P(reorder_10), P(reorder_20), P(stack),
         P(sync_flag), P(sync_pairs), P(token_ring), P(twostage), P(twostage_20), P(twostage_50), P(twostage_100), P(wronglock_2), P(wronglock_4), P(wronglock_8))
