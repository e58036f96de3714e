// Resource limits, priority and thread name go to the child, and what it changes stays there.
#include "processes.h"
#include <sys/resource.h>

int main(void) {
    struct rlimit limit = {50, 60}, seen;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(prctl(PR_SET_NAME, "parent-name") == 0);
    char name[16];
    FINE(CHILD(CHECK(getrlimit(RLIMIT_NOFILE, &seen) == 0 && seen.rlim_cur == 50 && seen.rlim_max == 60);
               CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "parent-name") == 0); seen.rlim_cur = 20;
               CHECK(setrlimit(RLIMIT_NOFILE, &seen) == 0); CHECK(prctl(PR_SET_NAME, "child-name") == 0);
               FAILS(dup2(1, 30), EBADF)));
    CHECK(getrlimit(RLIMIT_NOFILE, &seen) == 0 && seen.rlim_cur == 50);
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "parent-name") == 0);
    CHECK(dup2(1, 30) == 30);
    puts("limits");
}
