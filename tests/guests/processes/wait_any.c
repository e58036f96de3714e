// wait() takes whoever has ended; each child once.
#include "processes.h"

int main(void) {
    enum { COUNT = 6 };
    pid_t pids[COUNT];
    int seen[COUNT] = {0}, status;
    for (int i = 0; i < COUNT; i++)
        pids[i] = CHILD(_exit(i));
    for (int n = 0; n < COUNT; n++) {
        pid_t pid = wait(&status);
        CHECK(pid > 0 && WIFEXITED(status));
        CHECK(pids[WEXITSTATUS(status)] == pid);
        seen[WEXITSTATUS(status)]++;
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(seen[i] == 1);
    FAILS(wait(NULL), ECHILD);
    puts("six children, each once");
}
