// A look at a child that may or may not have ended.
// outcomes: "ended" "lives"
#include "processes.h"

int main(void) {
    pid_t pid = CHILD();
    write_all(1, waitpid(pid, NULL, WNOHANG) == pid ? "ended" : "lives");
    while (waitpid(pid, NULL, 0) == -1 && errno != ECHILD)
        continue;
}
