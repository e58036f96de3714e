// A child that a signal ends, by its own hand or by its parent's.
#include "processes.h"

static void tell(const char *what, int status) {
    CHECK(WIFSIGNALED(status) && !WIFEXITED(status));
    printf("%s: signal %d\n", what, WTERMSIG(status));
}

int main(void) {
    tell("raise", reap(CHILD(raise(SIGTERM))));
    tell("realtime", reap(CHILD(raise(SIGRTMIN + 3))));
    tell("alarm", reap(CHILD(alarm(1); pause())));
    const int signals[] = {SIGKILL, SIGHUP, SIGINT, SIGUSR1, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        pid_t pid = CHILD(for (;;) pause());
        CHECK(kill(pid, signals[i]) == 0);
        tell("kill", reap(pid));
    }
    // One that blocks a signal does not die of it until it lets it in.
    turn ready = make_turn(), go = make_turn();
    pid_t pid = CHILD(sigset_t set; sigemptyset(&set); sigaddset(&set, SIGTERM);
                      sigprocmask(SIG_BLOCK, &set, NULL); give(&ready); await(&go);
                      puts("still there"); fflush(stdout); sigprocmask(SIG_UNBLOCK, &set, NULL));
    await(&ready);
    CHECK(kill(pid, SIGTERM) == 0);
    give(&go);
    tell("unblocked", reap(pid));
}
