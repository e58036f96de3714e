// Parent and child write to the same output.
// outcomes: "ab" "ba"
#include "processes.h"

int main(void) {
    pid_t pid = CHILD(write_all(1, "a"));
    write_all(1, "b");
    FINE(pid);
}
