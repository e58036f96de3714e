// main may leave by pthread_exit; the process lives until its last thread ends, then exits with 0.
#include "guest.h"

static pthread_t main_thread;

static void *body(void *argument) {
    CHECK(join(main_thread) == (void *)42);
    puts("main thread joined after its end");
    return argument;
}

int main(void) {
    main_thread = pthread_self();
    start(body, NULL);
    puts("main leaves");
    fflush(stdout);
    pthread_exit((void *)42);
}
