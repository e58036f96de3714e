// The kind that prefers writers: a waiting writer keeps new readers out, and gets in before them.
#include "guest.h"

static pthread_rwlock_t lock;
static atomic_int writer_went;

static void *writer(void *argument) {
    OK(pthread_rwlock_wrlock(&lock));
    writer_went = 1;
    OK(pthread_rwlock_unlock(&lock));
    return argument;
}

int main(void) {
    pthread_rwlockattr_t attr;
    OK(pthread_rwlockattr_init(&attr));
    OK(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
    OK(pthread_rwlock_init(&lock, &attr));
    OK(pthread_rwlock_rdlock(&lock));
    pthread_t thread = start(writer, NULL);
    // Until the writer waits, further readers are let in; each gives its share back at once.
    while (pthread_rwlock_tryrdlock(&lock) == 0) {
        OK(pthread_rwlock_unlock(&lock));
        sched_yield();
    }
    CHECK(!writer_went);
    puts("readers are kept out");
    OK(pthread_rwlock_unlock(&lock));
    join(thread);
    CHECK(writer_went);
    puts("writer went");
}
