// A signal ends the child before, between or after what it has to say.
// outcomes: "" "x" "xy"
#include "processes.h"

int main(void) {
    pid_t pid = CHILD(write_all(1, "x"); write_all(1, "y"));
    CHECK(kill(pid, SIGKILL) == 0);
    reap(pid);
}
