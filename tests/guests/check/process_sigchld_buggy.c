// The parent looks whether its child has ended, says that it waits, and waits for the signal that has come in between.
// expect: deadlock
// min-preemptions: 1
#include "processes.h"

static volatile sig_atomic_t ended;

static void handler(int number) {
    (void)number;
    ended = 1;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    pid_t pid = CHILD();
    if (!ended) {
        write_all(2, "waiting\n");
        pause();
    }
    FINE(pid);
}
