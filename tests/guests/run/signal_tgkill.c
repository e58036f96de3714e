// pthread_kill and tgkill run the handler in the thread they name; kill of the process picks one that does not block.
#include "guest.h"

static atomic_long handled_by;
static atomic_int ready, stop;

static void handler(int number) {
    (void)number;
    handled_by = syscall(SYS_gettid);
}

static void *body(void *argument) {
    *(atomic_long *)argument = syscall(SYS_gettid);
    ready++;
    while (!stop)
        sched_yield();
    return NULL;
}

int main(void) {
    atomic_long tids[2];
    pthread_t threads[2];
    sigset_t set;
    CHECK(signal(SIGUSR1, handler) != SIG_ERR && signal(SIGUSR2, handler) != SIG_ERR);
    for (int i = 0; i < 2; i++)
        threads[i] = start(body, &tids[i]);
    while (ready < 2)
        sched_yield();
    OK(pthread_kill(threads[1], SIGUSR1));
    while (!handled_by)
        sched_yield();
    printf("in the thread that was meant: %d\n", handled_by == tids[1]);
    handled_by = 0;
    CHECK(syscall(SYS_tgkill, getpid(), (int)tids[0], SIGUSR2) == 0);
    while (!handled_by)
        sched_yield();
    printf("in the thread that was meant: %d\n", handled_by == tids[0]);
    handled_by = 0;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    CHECK(kill(getpid(), SIGUSR1) == 0);
    while (!handled_by)
        sched_yield();
    printf("not in main, which blocks it: %d\n", handled_by != getpid());
    stop = 1;
    join(threads[0]);
    join(threads[1]);
}
