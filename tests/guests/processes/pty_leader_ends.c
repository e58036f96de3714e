// When the leader of a session ends, the group in the foreground is hung up and the terminal is nobody's, but others keep it open.
#include "terminals.h"

int main(void) {
    terminal t = make_terminal();
    turn ready = make_turn();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t leader = CHILD(CHECK(setsid() == getpid() && ioctl(t.slave, TIOCSCTTY, 0) == 0);
                         CHILD(give(&ready); for (;;) pause()); await(&ready));
    FINE(leader);
    int status;
    CHECK(wait(&status) > 0 && WIFSIGNALED(status));
    printf("the child died of signal %d\n", WTERMSIG(status));
    FAILS(tcgetpgrp(t.slave), ENOTTY);
    write_all(t.master, "still here\n");
    expect(t.slave, "still here\n");
}
