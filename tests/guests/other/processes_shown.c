// Three processes, one of them with two threads and one that runs another program: something to look at.
#include "processes.h"
#include <pthread.h>
#include <sys/mman.h>

static pthread_mutex_t *lock;

static void *pass(void *unused) {
    CHECK(pthread_mutex_lock(lock) == 0);
    CHECK(pthread_mutex_unlock(lock) == 0);
    return unused;
}

int main(void) {
    lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    CHECK(pthread_mutexattr_init(&shared) == 0 && pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(lock != MAP_FAILED && pthread_mutex_init(lock, &shared) == 0);
    pid_t one = CHILD(pthread_t thread; CHECK(pthread_create(&thread, NULL, pass, NULL) == 0); pass(NULL);
                      CHECK(pthread_join(thread, NULL) == 0));
    pid_t two = CHILD(execl("/bin/sh", "sh", "-c", "exit 3", NULL));
    pass(NULL);
    FINE(one);
    return exit_of(two);
}
