// The process that holds a robust mutex dies: the next one is told, and makes it consistent, or nobody gets it any more.
#include "processes.h"

int main(void) {
    pthread_mutex_t *lock = shared_memory(sizeof *lock * 2);
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutex_init(&lock[0], &attributes));
    OK(pthread_mutex_init(&lock[1], &attributes));
    FINE(CHILD(OK(pthread_mutex_lock(&lock[0]))));
    CHECK(pthread_mutex_lock(&lock[0]) == EOWNERDEAD);
    OK(pthread_mutex_consistent(&lock[0]));
    OK(pthread_mutex_unlock(&lock[0]));
    OK(pthread_mutex_lock(&lock[0]));
    puts("consistent again");
    // One that waits when the owner is killed.
    turn has = make_turn();
    pid_t pid = CHILD(OK(pthread_mutex_lock(&lock[1])); give(&has); for (;;) pause());
    await(&has);
    pid_t waiter = CHILD(CHECK(pthread_mutex_lock(&lock[1]) == EOWNERDEAD);
                         // Given up without making it consistent.
                         OK(pthread_mutex_unlock(&lock[1])));
    sleep_ms(20);
    CHECK(kill(pid, SIGKILL) == 0 && WTERMSIG(reap(pid)) == SIGKILL);
    FINE(waiter);
    CHECK(pthread_mutex_lock(&lock[1]) == ENOTRECOVERABLE);
    puts("not recoverable");
}
