// A child with fewer rights: its user is its own, and it may not send signals to a process of another one.
#include "processes.h"

int main(void) {
    if (getuid() != 0) {
        puts("user and rights");
        return 0;
    }
    pid_t parent = getpid();
    FINE(CHILD(CHECK(setgid(65534) == 0 && setuid(65534) == 0); CHECK(getuid() == 65534 && geteuid() == 65534);
               FAILS(kill(parent, 0), EPERM); FAILS(kill(parent, SIGTERM), EPERM); FAILS(setuid(0), EPERM);
               CHECK(kill(getpid(), 0) == 0)));
    CHECK(getuid() == 0 && getegid() == 0);
    puts("user and rights");
}
