// A handler without SA_RESTART interrupts a wait; with it, the wait goes on.
#include "processes.h"

static volatile sig_atomic_t handled;

static void handler(int number) { handled = number; }

static void handle(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    handled = 0;
}

int main(void) {
    pid_t parent = getpid();
    int status;
    handle(0);
    turn go = make_turn();
    pid_t pid = CHILD(sleep_ms(100); kill(parent, SIGUSR1); await(&go); _exit(1));
    FAILS(waitpid(pid, &status, 0), EINTR);
    CHECK(handled == SIGUSR1);
    give(&go);
    printf("interrupted, then %d\n", exit_of(pid));
    handle(SA_RESTART);
    pid = CHILD(sleep_ms(100); kill(parent, SIGUSR1); sleep_ms(100); _exit(2));
    CHECK(waitpid(pid, &status, 0) == pid && handled == SIGUSR1);
    printf("restarted: %d\n", WEXITSTATUS(status));
}
