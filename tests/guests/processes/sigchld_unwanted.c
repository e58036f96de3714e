// SIG_IGN for SIGCHLD, or SA_NOCLDWAIT: children leave no zombies, and a wait ends with ECHILD when all are gone.
#include "processes.h"

static volatile sig_atomic_t told;

static void handler(int number) { told = number; }

int main(void) {
    turn go = make_turn();
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = CHILD(await(&go); _exit(3));
    give(&go);
    FAILS(wait(NULL), ECHILD);
    FAILS(kill(pid, 0), ESRCH);
    puts("ignored");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NOCLDWAIT | SA_RESTART};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    pid = CHILD(await(&go); _exit(4));
    give(&go);
    FAILS(waitpid(pid, NULL, 0), ECHILD);
    CHECK(told == SIGCHLD);
    puts("no zombies, but told");
    // The default is to ignore the signal as well, but then zombies stay.
    signal(SIGCHLD, SIG_DFL);
    pid = CHILD(_exit(5));
    printf("default: %d\n", exit_of(pid));
}
