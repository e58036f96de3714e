// A child that writes when nobody reads any more dies of SIGPIPE, or gets EPIPE.
#include "processes.h"

int main(void) {
    int ends[2];
    turn go = make_turn(), ready = make_turn();
    CHECK(pipe(ends) == 0);
    pid_t pid = CHILD(close(ends[0]); give(&ready); await(&go); write(ends[1], "x", 1) == 1 ? _exit(1) : _exit(2));
    pid_t second = CHILD(close(ends[0]); signal(SIGPIPE, SIG_IGN); give(&ready); await(&go); FAILS(write(ends[1], "x", 1), EPIPE));
    CHECK(close(ends[0]) == 0);
    await(&ready);
    await(&ready);
    give(&go);
    give(&go);
    int status = reap(pid);
    CHECK(WIFSIGNALED(status));
    printf("signal %d\n", WTERMSIG(status));
    FINE(second);
}
