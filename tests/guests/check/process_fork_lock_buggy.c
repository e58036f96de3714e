// A program forks while another of its threads holds a lock: nobody lets it go in the child.
// expect: deadlock
// min-preemptions: 2
#include "processes.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *logs(void *argument) {
    OK(pthread_mutex_lock(&lock));
    OK(pthread_mutex_unlock(&lock));
    return argument;
}

int main(void) {
    pthread_t thread = start(logs, NULL);
    pid_t pid = CHILD(logs(NULL));
    FINE(pid);
    join(thread);
}
