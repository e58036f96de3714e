// Memory that is used after it was freed, by locks, streams, counts and tables that have moved.
#include "corpus.h"

MUTEX(m);
MUTEX(done_lock);
COND(done_cond);
static int done;

static void tell(void) { LOCK(done_lock), done = 1, pthread_cond_signal(&done_cond), UNLOCK(done_lock); }
static void wait_until_told(void) {
    LOCK(done_lock);
    while (!done) pthread_cond_wait(&done_cond, &done_lock);
    UNLOCK(done_lock);
}

// A table grows while a reader has the old one: it may stay where it is, or not.
static int *table, entries = 4;
THREAD(grows) {
    LOCK(m);
    table = realloc(table, 8 * sizeof *table);
    for (int i = entries; i < 8; i++) table[i] = i;
    entries = 8;
    UNLOCK(m);
    return 0;
}
THREAD(adds_up) {
    LOCK(m);
    int *mine = table, count = entries, sum = 0;
    if (bad) UNLOCK(m);
    for (int i = 0; i < count; i++) sum += mine[i];
    if (!bad) UNLOCK(m);
    assert(sum == count * (count - 1) / 2);
    return 0;
}
static void grown_table(void) {
    table = malloc(4 * sizeof *table);
    for (int i = 0; i < 4; i++) table[i] = i;
    TOGETHER(grows, adds_up);
    for (int i = 0; i < 8; i++) assert(table[i] == i);
    free(table);
}

// The same by `reallocarray`, and of a block that shrinks to nothing.
static char *text;
THREAD(shrinks) { LOCK(m), text = realloc(text, bad ? 0 : 8), UNLOCK(m); return 0; }
THREAD(reads_text) {
    LOCK(m);
    char *mine = text;
    if (bad) UNLOCK(m);
    if (mine) assert(mine[0] == 'x');
    if (!bad) UNLOCK(m);
    return 0;
}
static void shrunk_text(void) { text = reallocarray(NULL, 4, 8), text[0] = 'x'; TOGETHER(shrinks, reads_text); }

// An object is taken while its last owner lets go of it.
struct object { atomic_int owners; int data; };
static struct object *_Atomic shared;
static void let_go(struct object *object) { if (atomic_fetch_sub(&object->owners, 1) == 1) free(object); }
THREAD(takes_object) {
    if (!bad) LOCK(m);
    struct object *object = shared;
    if (object) atomic_fetch_add(&object->owners, 1);
    if (!bad) UNLOCK(m);
    if (object) object->data++, let_go(object);
    return 0;
}
THREAD(drops_object) {
    LOCK(m);
    struct object *object = shared;
    shared = NULL;
    UNLOCK(m);
    let_go(object);
    return 0;
}
static void taken_too_late(void) {
    struct object *object = malloc(sizeof *object);
    atomic_init(&object->owners, 1), object->data = 0, shared = object;
    TOGETHER(takes_object, drops_object);
}

// An event is destroyed by who waited for it, while it is still being announced.
struct event { pthread_mutex_t lock; pthread_cond_t cond; int set; };
static struct event *event;
THREAD(announces) {
    LOCK(event->lock);
    event->set = 1;
    if (!bad) pthread_cond_signal(&event->cond);
    UNLOCK(event->lock);
    if (bad) pthread_cond_signal(&event->cond);
    return 0;
}
static void destroyed_event(void) {
    pthread_t thread;
    event = calloc(1, sizeof *event);
    pthread_create(&thread, NULL, announces, NULL);
    LOCK(event->lock);
    while (!event->set) pthread_cond_wait(&event->cond, &event->lock);
    UNLOCK(event->lock);
    if (!bad) pthread_join(thread, NULL);
    free(event);
    if (bad) pthread_join(thread, NULL);
}

// A log is closed while a line is written to it.
static FILE *log_file;
THREAD(logs) {
    if (!bad) LOCK(m);
    FILE *file = log_file;
    if (file) fprintf(file, "line %d\n", bad);
    if (!bad) UNLOCK(m);
    return 0;
}
THREAD(closes_log) {
    LOCK(m);
    FILE *file = log_file;
    log_file = NULL;
    fclose(file);
    UNLOCK(m);
    return 0;
}
static void closed_log(void) { log_file = fopen("/dev/null", "w"); TOGETHER(logs, closes_log); }

// What a thread leaves behind is put away when it has ended, in a register that is gone.
struct live { pthread_mutex_t lock; int threads; };
static struct live *live;
static pthread_key_t key;
static void sign_off(void *value) { (void)value; LOCK(live->lock), live->threads--, UNLOCK(live->lock); }
THREAD(signs_on) {
    LOCK(live->lock), live->threads++, UNLOCK(live->lock);
    pthread_setspecific(key, live);
    tell();
    return 0;
}
static void signed_off_late(void) {
    pthread_t thread;
    live = calloc(1, sizeof *live);
    pthread_key_create(&key, sign_off);
    pthread_create(&thread, NULL, signs_on, NULL);
    wait_until_told();
    if (!bad) pthread_join(thread, NULL);
    free(live);
    if (bad) pthread_join(thread, NULL);
}

PROGRAMS(P(grown_table), P(shrunk_text), P(taken_too_late), P(destroyed_event), P(closed_log), P(signed_off_late))
