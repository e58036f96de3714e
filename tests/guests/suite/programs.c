// Benchmark of bugs, second part: the cores of bugs in real programs (downloaders, compressors, servers, libraries, numerical kernels). Called with a name and
// `bad` or `fine`.
#include "corpus.h"
#include <signal.h>

MUTEX(m);
MUTEX(m2);
COND(cond);
static int x, n, done;

static void start(pthread_t *thread, body run, long argument) { pthread_create(thread, NULL, run, (void *)argument); }

// A downloader: parts add up the bytes they have written without the lock, and what is saved at the end is too little.
static volatile int bytes_written;
THREAD(download_part) {
    for (int i = 0; i < 2; i++) {
        if (!bad) LOCK(m);
        int before = bytes_written;
        bytes_written = before + 100;
        if (!bad) UNLOCK(m);
    }
    return 0;
}
static void downloader(void) { TOGETHER(download_part, download_part, download_part); assert(bytes_written == 600); }

// A compressor: the queue is taken down while a consumer still uses its lock.
struct fifo { pthread_mutex_t *lock; int blocks; };
static struct fifo *fifo;
THREAD(compresses) {
    while (1) {
        LOCK(m);
        struct fifo *mine = fifo;
        UNLOCK(m);
        assert(mine != NULL);
        LOCK(m2);
        int left = mine->blocks > 0 ? mine->blocks-- : 0;
        UNLOCK(m2);
        if (left == 0) break;
    }
    return 0;
}
static void compressor(void) {
    static struct fifo queue = {.blocks = 2};
    pthread_t threads[2];
    fifo = &queue;
    for (int i = 0; i < 2; i++) start(&threads[i], compresses, i);
    for (int blocks = 1; bad && blocks > 0; sched_yield()) LOCK(m2), blocks = queue.blocks, UNLOCK(m2);
    for (int i = 0; !bad && i < 2; i++) pthread_join(threads[i], NULL);
    LOCK(m), fifo = NULL, UNLOCK(m);
    for (int i = 0; bad && i < 2; i++) pthread_join(threads[i], NULL);
}

// A string buffer: its length is asked for, then its characters are copied, and another thread has shortened it in between.
struct text { pthread_mutex_t lock; int length; char characters[8]; };
static struct text source = {PTHREAD_MUTEX_INITIALIZER, 6, "abcdef"};
THREAD(appends_text) {
    char copy[8] = "";
    LOCK(source.lock);
    int length = source.length;
    if (bad) UNLOCK(source.lock), LOCK(source.lock);
    assert(length <= source.length);
    memcpy(copy, source.characters, (size_t)length);
    UNLOCK(source.lock);
    return 0;
}
THREAD(deletes_text) { LOCK(source.lock), source.length = 0, UNLOCK(source.lock); return 0; }
static void string_buffer(void) { TOGETHER(appends_text, deletes_text); }

// A bounded buffer with one condition for both sides: a signal meant for a consumer wakes a producer.
#define ROOM 1
static int slots[ROOM], used;
static void wake(void) { if (bad) pthread_cond_signal(&cond); else pthread_cond_broadcast(&cond); }
THREAD(puts_one) {
    LOCK(m);
    while (used == ROOM) pthread_cond_wait(&cond, &m);
    slots[used++] = 1;
    wake();
    UNLOCK(m);
    return 0;
}
THREAD(gets_one) {
    LOCK(m);
    while (used == 0) pthread_cond_wait(&cond, &m);
    assert(slots[--used] == 1);
    wake();
    UNLOCK(m);
    return 0;
}
static void bounded_buffer(void) { TOGETHER(gets_one, gets_one, puts_one, puts_one); }

// Two producers, two consumers, and a count that is looked at with `if`.
THREAD(inserts) { LOCK(m), n++, pthread_cond_broadcast(&cond), UNLOCK(m); return 0; }
THREAD(removes) {
    LOCK(m);
    if (bad && n == 0) pthread_cond_wait(&cond, &m);
    while (!bad && n == 0) pthread_cond_wait(&cond, &m);
    n--;
    assert(n >= 0);
    UNLOCK(m);
    return 0;
}
static void blocking_buffer(void) { TOGETHER(removes, removes, inserts, inserts); }

// A library for traces: a thread is looked up in a table without the lock that others change it under.
#define ENTRIES 2
static volatile int entry_ids[ENTRIES], entry_levels[ENTRIES];
THREAD(registers_itself) {
    int me = (int)(long)argument;
    LOCK(m);
    entry_ids[me] = me + 1;
    if (bad) UNLOCK(m);
    entry_levels[me] = 3;
    if (!bad) UNLOCK(m);
    return 0;
}
THREAD(traces) {
    LOCK(m);
    for (int i = 0; i < ENTRIES; i++)
        if (entry_ids[i]) assert(entry_levels[i] == 3);
    UNLOCK(m);
    return 0;
}
static void tracer(void) { TOGETHER(registers_itself, registers_itself, traces); }

// A sort in threads: a worker that is free is asked to work while it is just going to sleep, and the call gets lost.
static int asked, sorted;
THREAD(sorter) {
    for (int i = 0; i < 2; i++) {
        LOCK(m);
        int nothing = asked == 0;
        if (bad) UNLOCK(m), LOCK(m);
        if (nothing && (bad || asked == 0)) pthread_cond_wait(&cond, &m);
        if (asked > 0) asked--, sorted++;
        UNLOCK(m);
    }
    return 0;
}
static void parallel_sort(void) {
    pthread_t thread;
    start(&thread, sorter, 0);
    for (int i = 0; i < 2; i++) {
        LOCK(m), asked++, pthread_cond_signal(&cond), UNLOCK(m);
        for (int left = 1; !bad && left; sched_yield()) LOCK(m), left = asked, UNLOCK(m);
    }
    pthread_join(thread, NULL);
}

// A pipeline: the end is announced before the last item is in the next queue.
static int staged, passed, at_end;
THREAD(first_stage) {
    for (int i = 0; i < 3; i++) {
        if (bad && i == 2) LOCK(m), at_end = 1, pthread_cond_broadcast(&cond), UNLOCK(m);
        LOCK(m), staged++, pthread_cond_broadcast(&cond), UNLOCK(m);
    }
    LOCK(m), at_end = 1, pthread_cond_broadcast(&cond), UNLOCK(m);
    return 0;
}
THREAD(second_stage) {
    LOCK(m);
    while (1) {
        while (staged == 0 && !at_end) pthread_cond_wait(&cond, &m);
        if (staged == 0) break;
        staged--, passed++;
    }
    UNLOCK(m);
    return 0;
}
static void pipeline(void) { TOGETHER(first_stage, second_stage); assert(passed == 3); }

// A clustering with phases: the barrier of its own is used again before everybody has left it.
static int arrived, generation, at_barrier = 2;
static void own_barrier(void) {
    LOCK(m);
    int mine = generation;
    if (++arrived == at_barrier) {
        arrived = 0, generation++;
        pthread_cond_broadcast(&cond);
    } else if (bad)
        while (arrived != 0) pthread_cond_wait(&cond, &m);
    else
        while (generation == mine) pthread_cond_wait(&cond, &m);
    UNLOCK(m);
}
THREAD(clusters) { for (int i = 0; i < 2; i++) own_barrier(); return 0; }
static void reused_barrier(void) { TOGETHER(clusters, clusters); }

// The same with a flag that one thread sets for all after its part, and a barrier that is missing before it is read.
static pthread_barrier_t barrier;
static atomic_int opened;
THREAD(opens_centre) {
    if ((long)argument == 0) atomic_store(&opened, 1);
    if (!bad) pthread_barrier_wait(&barrier);
    assert(atomic_load(&opened) == 1);
    return 0;
}
static void missing_barrier(void) { pthread_barrier_init(&barrier, NULL, 3); TOGETHER(opens_centre, opens_centre, opens_centre); }

// A barrier for one thread more than there are.
THREAD(waits_for_all) { LOCK(m), n++, UNLOCK(m); pthread_barrier_wait(&barrier); return 0; }
static void counted_barrier(void) { pthread_barrier_init(&barrier, NULL, bad ? 4 : 3); TOGETHER(waits_for_all, waits_for_all, waits_for_all); }

// Bodies in a tree: each cell is locked to be read and locked again to be changed.
static int cells[2];
static pthread_mutex_t cell_locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
THREAD(loads_body) {
    int cell = (int)(long)argument % 2;
    LOCK(cell_locks[cell]);
    int bodies = cells[cell];
    if (bad) UNLOCK(cell_locks[cell]), LOCK(cell_locks[cell]);
    cells[cell] = bodies + 1;
    UNLOCK(cell_locks[cell]);
    return 0;
}
static void body_tree(void) { TOGETHER(loads_body, loads_body, loads_body, loads_body); assert(cells[0] + cells[1] == 4); }

// A transform in rows: the global error is taken over by the last one that looks.
static volatile int error_seen;
THREAD(transforms) {
    int mine = (int)(long)argument + 1;
    if (!bad) LOCK(m);
    if (error_seen < mine) error_seen = mine;
    if (!bad) UNLOCK(m);
    return 0;
}
static void transform(void) { TOGETHER(transforms, transforms, transforms); assert(error_seen == 3); }

// A factorisation: a column is used before its owner has marked it done, because the mark is set first.
static atomic_int column_done, column;
THREAD(factors) {
    if (bad) atomic_store(&column_done, 1), atomic_store(&column, 5);
    else atomic_store(&column, 5), atomic_store(&column_done, 1);
    return 0;
}
THREAD(uses_column) { if (atomic_load(&column_done)) assert(atomic_load(&column) == 5); return 0; }
static void factorisation(void) { TOGETHER(uses_column, uses_column, factors); }

// A script engine: an object is destroyed by its last owner while another one is just making it his.
static atomic_int owners = 1, destroyed;
THREAD(adopts) {
    if (bad) {
        if (atomic_load(&owners) > 0) { atomic_fetch_add(&owners, 1); assert(!atomic_load(&destroyed)); atomic_fetch_sub(&owners, 1); }
        return 0;
    }
    for (int seen = atomic_load(&owners); seen > 0;)
        if (atomic_compare_exchange_strong(&owners, &seen, seen + 1)) {
            assert(!atomic_load(&destroyed));
            if (atomic_fetch_sub(&owners, 1) == 1) atomic_store(&destroyed, 1);
            break;
        }
    return 0;
}
THREAD(disowns) { if (atomic_fetch_sub(&owners, 1) == 1) atomic_store(&destroyed, 1); return 0; }
static void script_object(void) { TOGETHER(adopts, disowns); }

// A runtime: a waiter looks, and waits; the notifier sets and signals without the lock in between.
static atomic_int interrupted;
THREAD(monitor_waits) {
    LOCK(m);
    while (!atomic_load(&interrupted)) pthread_cond_wait(&cond, &m);
    UNLOCK(m);
    return 0;
}
THREAD(monitor_notifies) {
    if (!bad) LOCK(m);
    atomic_store(&interrupted, 1);
    pthread_cond_signal(&cond);
    if (!bad) UNLOCK(m);
    return 0;
}
static void lost_notification(void) { TOGETHER(monitor_waits, monitor_notifies); }

// A browser's loop: tasks that a task posts are counted after they are visible.
static atomic_int tasks, running_tasks;
THREAD(posts_tasks) {
    for (int i = 0; i < 2; i++)
        if (bad) atomic_fetch_add(&tasks, 1), atomic_fetch_add(&running_tasks, 1);
        else atomic_fetch_add(&running_tasks, 1), atomic_fetch_add(&tasks, 1);
    return 0;
}
THREAD(runs_tasks) {
    for (int i = 0; i < 2; i++)
        if (atomic_load(&tasks) > 0) { atomic_fetch_sub(&tasks, 1); assert(atomic_fetch_sub(&running_tasks, 1) > 0); }
    return 0;
}
static void task_loop(void) { TOGETHER(posts_tasks, runs_tasks); }

// A cache server: an item is looked up under the lock, and counted up by a thread that no longer has it.
static int item = 10;
THREAD(increments_item) {
    LOCK(m);
    int value = item;
    if (bad) UNLOCK(m), LOCK(m2), x++, UNLOCK(m2), LOCK(m);
    item = value + 1;
    UNLOCK(m);
    return 0;
}
static void cache_item(void) { TOGETHER(increments_item, increments_item, increments_item); assert(item == 13); }

// A web server: the log is turned over while a line is being written to it.
static atomic_int log_position;
static char log_lines[16];
THREAD(logs_line) {
    if (!bad) LOCK(m);
    int position = atomic_load(&log_position);
    for (int i = 0; i < 3; i++) log_lines[position + i] = '#';
    atomic_store(&log_position, position + 3);
    if (!bad) UNLOCK(m);
    return 0;
}
static void log_file(void) {
    TOGETHER(logs_line, logs_line, logs_line);
    assert(atomic_load(&log_position) == 9);
}

// A database: the table's lock and the log's lock in two orders, by three kinds of statements.
THREAD(inserts_row) { LOCK(m), LOCK(m2), x++, UNLOCK(m2), UNLOCK(m); return 0; }
THREAD(flushes_log) {
    if (bad) LOCK(m2), LOCK(m);
    else LOCK(m), LOCK(m2);
    x++, UNLOCK(m), UNLOCK(m2);
    return 0;
}
THREAD(reads_row) { LOCK(m), n = x, UNLOCK(m); LOCK(m2), done = n, UNLOCK(m2); return 0; }
static void table_and_log(void) { TOGETHER(reads_row, inserts_row, reads_row, flushes_log); }

PROGRAMS(P(downloader), P(compressor), P(string_buffer), P(bounded_buffer), P(blocking_buffer), P(tracer), P(parallel_sort), P(pipeline), P(reused_barrier),
         P(missing_barrier), P(counted_barrier), P(body_tree), P(transform), P(factorisation), P(script_object), P(lost_notification), P(task_loop),
         P(cache_item), P(log_file), P(table_and_log))
