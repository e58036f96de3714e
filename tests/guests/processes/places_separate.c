// Working directory, umask and environment are a process's own after fork.
#include "processes.h"

int main(void) {
    char here[PATH_MAX], now[PATH_MAX];
    CHECK(getcwd(here, sizeof here) && mkdir("below", 0700) == 0);
    umask(022);
    setenv("WORD", "parent", 1);
    FINE(CHILD(CHECK(umask(077) == 022); CHECK(chdir("below") == 0); setenv("WORD", "child", 1);
               CHECK(close(open("inside", O_CREAT | O_WRONLY, 0666)) == 0)));
    CHECK(getcwd(now, sizeof now) && strcmp(here, now) == 0);
    CHECK(umask(0) == 022);
    struct stat info;
    CHECK(stat("below/inside", &info) == 0);
    printf("%o, %s\n", info.st_mode & 0777, getenv("WORD"));
    // Inherited at the time of the fork.
    CHECK(chdir("below") == 0);
    FINE(CHILD(CHECK(access("inside", F_OK) == 0); CHECK(umask(0) == 0)));
    CHECK(chdir(here) == 0);
}
