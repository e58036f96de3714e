// What stdio holds back at a fork is in both processes, and written by both; _exit writes nothing.
#include "processes.h"

static void at_the_end(void) { fputs("at exit;", stdout); }

int main(void) {
    CHECK(atexit(at_the_end) == 0);
    fputs("held back;", stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fputs("child;", stdout);
        exit(0);
    }
    FINE(pid);
    pid = fork();
    if (pid == 0)
        _exit(0);
    FINE(pid);
    fputs("parent\n", stdout);
}
