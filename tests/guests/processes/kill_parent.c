// A child wakes its parent, which sleeps.
#include "processes.h"

static volatile sig_atomic_t told;

static void handler(int number) { told = number; }

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigset_t block, before;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &block, &before) == 0);
    pid_t pid = CHILD(CHECK(kill(getppid(), SIGUSR2) == 0));
    while (!told)
        sigsuspend(&before);
    FINE(pid);
    // A sleep that a signal cuts short.
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    pid = CHILD(sleep_ms(200); CHECK(kill(getppid(), SIGUSR2) == 0));
    CHECK(sleep(1000) > 900);
    FINE(pid);
    puts("woken");
}
