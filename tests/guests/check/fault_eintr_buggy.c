// A read that waits may be interrupted, which is no error: the program gives up.
// expect: exit
// min-preemptions: 0
// options: --faults eintr --expect-exit 0
#include <pthread.h>
#include <unistd.h>

static int ends[2];

static void *writer(void *unused) {
    (void)!write(ends[1], "x", 1);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pipe(ends) != 0)
        return 2;
    pthread_create(&thread, NULL, writer, NULL);
    char byte;
    int status = read(ends[0], &byte, 1) == 1 ? 0 : 1;
    pthread_join(thread, NULL);
    return status;
}
