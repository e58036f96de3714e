// The fixed version: what was interrupted is done again.
// options: --faults eintr --expect-exit 0
#include <errno.h>
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
    ssize_t got;
    do
        got = read(ends[0], &byte, 1);
    while (got == -1 && errno == EINTR);
    int status = got == 1 ? 0 : 1;
    pthread_join(thread, NULL);
    return status;
}
