// A server waits for one child when it hears of one: signals of two that end together are one, and a zombie stays. With -DFIXED it waits for all.
#include "processes.h"

static void handler(int number) {
    (void)number;
#ifdef FIXED
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
#else
    waitpid(-1, NULL, WNOHANG);
#endif
}

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    sigset_t set, before;
    sigemptyset(&set), sigaddset(&set, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0);
    CHILD();
    CHILD();
    // It does something else, and hears of its children then.
    sleep_ms(10);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    write_all(1, "served\n");
}
