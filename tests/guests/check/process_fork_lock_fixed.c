// fork waits for the lock, so that the child has it and can let it go.
#include "processes.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take(void) { OK(pthread_mutex_lock(&lock)); }
static void leave(void) { OK(pthread_mutex_unlock(&lock)); }

static void *logs(void *argument) {
    OK(pthread_mutex_lock(&lock));
    OK(pthread_mutex_unlock(&lock));
    return argument;
}

int main(void) {
    OK(pthread_atfork(take, leave, leave));
    pthread_t thread = start(logs, NULL);
    pid_t pid = CHILD(logs(NULL));
    FINE(pid);
    join(thread);
}
