// Forks so many times; each child ends at once and is waited for.
#include "processes.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    for (long i = atol(argv[1]); i > 0; i--) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(0);
        CHECK(waitpid(pid, NULL, 0) == pid);
    }
}
