// setpgid(): for oneself and one's children that have not yet run another program.
#include "processes.h"

int main(int argc, char **argv) {
    turn go = make_turn(), ready = make_turn();
    if (argc > 1) {
        CHECK(write(atoi(argv[1]), "x", 1) == 1);
        char byte;
        return read(atoi(argv[2]), &byte, 1) == 1 ? 0 : 1;
    }
    pid_t group = getpgrp(), child = CHILD(await(&go); CHECK(getpgrp() == getpid()); give(&ready); await(&go);
                                           CHECK(getpgrp() == getpid()));
    CHECK(getpgid(child) == group && getpgid(0) == group && getpgid(getpid()) == group);
    CHECK(setpgid(child, child) == 0 && getpgid(child) == child);
    give(&go);
    await(&ready);
    // A second one joins it, and goes back.
    pid_t second = CHILD(await(&go));
    CHECK(setpgid(second, child) == 0 && getpgid(second) == child);
    CHECK(setpgid(second, group) == 0 && getpgid(second) == group);
    FAILS(setpgid(second, 12345), EPERM);
    FAILS(setpgid(12345, 0), ESRCH);
    FAILS(setpgid(-1, 5), ESRCH);
    FAILS(setpgid(0, -1), EINVAL);
    give(&go);
    give(&go);
    FINE(child);
    FINE(second);
    char out[16], in[16];
    snprintf(out, sizeof out, "%d", ready.ends[1]);
    snprintf(in, sizeof in, "%d", go.ends[0]);
    pid_t other = CHILD(execl("/proc/self/exe", argv[0], out, in, NULL); _exit(98));
    await(&ready);
    FAILS(setpgid(other, other), EACCES);
    give(&go);
    FINE(other);
    // A leader of a session stays.
    FINE(CHILD(CHECK(setsid() == getpid()); FAILS(setpgid(0, 0), EPERM)));
    puts("groups");
}
