// The parent lets the signal in only while it waits.
#include "processes.h"

static volatile sig_atomic_t ended;

static void handler(int number) {
    (void)number;
    ended = 1;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigset_t block, before;
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &block, &before) == 0);
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    pid_t pid = CHILD();
    while (!ended) {
        write_all(2, "waiting\n");
        sigsuspend(&before);
    }
    FINE(pid);
}
