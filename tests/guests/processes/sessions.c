// setsid(): a session and a group of one's own, unless one leads a group already.
#include "processes.h"

int main(void) {
    pid_t session = getsid(0);
    FINE(CHILD(CHECK(getsid(0) == session); CHECK(setsid() == getpid());
               CHECK(getsid(0) == getpid() && getpgrp() == getpid() && getpgid(0) == getpid());
               FAILS(setsid(), EPERM)));
    FINE(CHILD(CHECK(setpgid(0, 0) == 0); FAILS(setsid(), EPERM)));
    // Children are in the session of their parent, and a group of another one cannot be joined.
    pid_t parent_group = getpgrp();
    FINE(CHILD(CHECK(setsid() == getpid()); pid_t leader = getpid();
               FINE(CHILD(CHECK(getsid(0) == leader && getpgrp() == leader); FAILS(setpgid(0, parent_group), EPERM);
                          CHECK(setpgid(0, 0) == 0 && getsid(0) == leader)))));
    turn go = make_turn(), ready = make_turn();
    pid_t other = CHILD(CHECK(setsid() == getpid()); give(&ready); await(&go));
    await(&ready);
    CHECK(getsid(other) == other);
    FAILS(setpgid(other, 0), EPERM);
    give(&go);
    FINE(other);
    FAILS(getsid(54321), ESRCH);
    puts("sessions");
}
