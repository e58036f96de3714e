// fork in a program with threads: the child has the one that called, and the handlers of pthread_atfork run in order.
#include "processes.h"

static turn go, again;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void before(void) { OK(pthread_mutex_lock(&lock)); }
static void after(void) { OK(pthread_mutex_unlock(&lock)); }
static void told_before(void) { puts("second handler, before"); }
static void told_child(void) { puts("second handler, in the child"); }

static void *waits(void *argument) {
    await(argument);
    return NULL;
}

static void *forks(void *argument) {
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(gettid() == getpid());
        OK(pthread_mutex_lock(&lock));
        // New threads can be made and joined there.
        give(&again);
        join(start(waits, &again));
        puts("in the child");
        exit(4);
    }
    printf("%d\n", exit_of(pid));
    return argument;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    go = make_turn();
    again = make_turn();
    OK(pthread_atfork(before, after, after));
    OK(pthread_atfork(told_before, NULL, told_child));
    pthread_t waiting = start(waits, &go);
    join(start(forks, NULL));
    give(&go);
    join(waiting);
    OK(pthread_mutex_lock(&lock));
    puts("in the parent");
}
