// Puts every kind of lock into every state that can be reached without racing, and prints for each: the bytes of the object, the
// thread id that is about to call, the function, and what the call really does. What it does is not assumed but found out,
// with the timed variant of the function and a timeout that has passed: ETIMEDOUT means that it would have blocked.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct timespec past = {1, 0};
static int main_tid;

static void dump(const char *name, const char *function, const void *object, size_t size, int tid) {
    printf("%s %s %d ", name, function, tid);
    for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char *)object)[i]);
}

// The object is copied before it is tried: the call may change it.
static void try_mutex(const char *name, pthread_mutex_t *m) {
    dump(name, "pthread_mutex_lock", m, sizeof *m, gettid());
    int result = pthread_mutex_timedlock(m, &past);
    // A thread's first use of a priority-protected mutex may fail to read the thread's own priority.
    if (result == EINVAL) result = pthread_mutex_timedlock(m, &past);
    printf(" %d\n", result);
    if (result == 0 || result == EOWNERDEAD) pthread_mutex_unlock(m);
}
static void try_rwlock(const char *name, pthread_rwlock_t *l) {
    dump(name, "pthread_rwlock_rdlock", l, sizeof *l, gettid());
    int result = pthread_rwlock_timedrdlock(l, &past);
    printf(" %d\n", result);
    if (result == 0) pthread_rwlock_unlock(l);
    dump(name, "pthread_rwlock_wrlock", l, sizeof *l, gettid());
    result = pthread_rwlock_timedwrlock(l, &past);
    printf(" %d\n", result);
    if (result == 0) pthread_rwlock_unlock(l);
}
static void try_sem(const char *name, sem_t *s) {
    dump(name, "sem_wait", s, sizeof *s, gettid());
    printf(" %d\n", sem_timedwait(s, &past) == 0 ? 0 : errno);
}
// There is no timed spin lock: trylock says EBUSY where lock would spin.
static void try_spin(const char *name, pthread_spinlock_t *s) {
    dump(name, "pthread_spin_lock", (void *)s, sizeof *s, gettid());
    int result = pthread_spin_trylock(s);
    printf(" %d\n", result == EBUSY ? ETIMEDOUT : result);
    if (result == 0) pthread_spin_unlock(s);
}

struct attempt { void (*try)(const char *, void *); const char *name; void *object; };
static void *attempt_main(void *arg) { struct attempt *a = arg; a->try(a->name, a->object); return 0; }
static void elsewhere(void (*try)(), const char *name, void *object) {
    pthread_t t;
    struct attempt a = {(void (*)(const char *, void *))try, name, object};
    pthread_create(&t, 0, attempt_main, &a);
    pthread_join(t, 0);
}
static void *die_with(void *m) { pthread_mutex_lock(m); return 0; }

static void mutexes(void) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    static const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT, PTHREAD_PRIO_PROTECT};
    for (int type = 0; type < 4; type++) for (int protocol = 0; protocol < 3; protocol++) for (int robust = 0; robust < 2; robust++) {
        if (robust && protocols[protocol] == PTHREAD_PRIO_PROTECT) continue;
        pthread_mutexattr_t attr;
        pthread_mutex_t m;
        char name[80];
        pthread_mutexattr_init(&attr);
        pthread_mutexattr_settype(&attr, types[type]);
        pthread_mutexattr_setprotocol(&attr, protocols[protocol]);
        if (protocol == 2) pthread_mutexattr_setprioceiling(&attr, 5);
        pthread_mutexattr_setrobust(&attr, robust);
        if (pthread_mutex_init(&m, &attr)) continue;
        snprintf(name, sizeof name, "type%d-protocol%d-robust%d", type, protocol, robust);
        char state[120];
#define STATE(s) (snprintf(state, sizeof state, "%s-%s", name, s), state)
        try_mutex(STATE("free"), &m);
        int locked = pthread_mutex_lock(&m);
        if (locked == 0) {
            try_mutex(STATE("held-by-caller"), &m);
            elsewhere(try_mutex, STATE("held-by-other"), &m);
            pthread_mutex_unlock(&m);
        }
        if (robust) {
            pthread_t t;
            pthread_create(&t, 0, die_with, &m);
            pthread_join(t, 0);
            try_mutex(STATE("owner-died"), &m);
            try_mutex(STATE("not-recoverable"), &m);
        }
    }
}

// A writer that waits for readers, and a reader that waits behind it: real waiting threads, seen in the lock word.
static void *blocked_writer(void *l) { pthread_rwlock_wrlock(l); pthread_rwlock_unlock(l); return 0; }
static void rwlocks(void) {
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlockattr_t attr;
        pthread_rwlock_t l;
        char state[80];
        snprintf(state, sizeof state, "kind%d", kind);
        char name[120];
        pthread_rwlockattr_init(&attr);
        pthread_rwlockattr_setkind_np(&attr, kind);
        pthread_rwlock_init(&l, &attr);
#undef STATE
#define STATE(s) (snprintf(name, sizeof name, "%s-%s", state, s), name)
        try_rwlock(STATE("free"), &l);
        try_rwlock(STATE("free-after-write"), &l);
        pthread_rwlock_wrlock(&l);
        try_rwlock(STATE("written-by-caller"), &l);
        elsewhere(try_rwlock, STATE("written-by-other"), &l);
        pthread_rwlock_unlock(&l);
        pthread_rwlock_rdlock(&l);
        try_rwlock(STATE("read-by-caller"), &l);
        elsewhere(try_rwlock, STATE("read-by-other"), &l);
        pthread_t writer;
        pthread_create(&writer, 0, blocked_writer, &l);
        while (!(__atomic_load_n(&l.__data.__readers, __ATOMIC_SEQ_CST) & 2)) sched_yield();
        elsewhere(try_rwlock, STATE("read-with-waiting-writer"), &l);
        pthread_rwlock_unlock(&l);
        pthread_join(writer, 0);
        try_rwlock(STATE("free-after-all"), &l);
    }
}

int main(void) {
    main_tid = gettid();
    mutexes();
    rwlocks();
    sem_t s;
    for (int value = 0; value < 3; value++) { sem_init(&s, 0, value); try_sem("semaphore", &s); }
    sem_init(&s, 0, 0); sem_post(&s); try_sem("semaphore-posted", &s);
    pthread_spinlock_t spin;
    pthread_spin_init(&spin, 0);
    try_spin("spin-free", &spin);
    pthread_spin_lock(&spin);
    try_spin("spin-held", &spin);
    pthread_cond_t c;
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_cond_init(&c, &ca);
    dump("cond-realtime", "pthread_cond_timedwait", &c, sizeof c, main_tid); printf(" 0\n");
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&c, &ca);
    dump("cond-monotonic", "pthread_cond_timedwait", &c, sizeof c, main_tid); printf(" 1\n");
    return 0;
}
