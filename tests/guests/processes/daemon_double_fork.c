// A daemon detaches: fork, setsid, fork again. Whoever started it reads what it has to say until it has closed everything.
#include "processes.h"

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t starter = getpid(), pid = fork_checked();
    if (pid == 0) {
        CHECK(setsid() == getpid());
        if (fork_checked() != 0)
            _exit(0);
        CHECK(getsid(0) != getpid() && getpid() != getpgrp());
        umask(0);
        CHECK(chdir("/") == 0);
        int null = open("/dev/null", O_RDWR);
        CHECK(dup2(null, 0) == 0 && dup2(null, 1) == 1);
        CHECK(getppid() != starter);
        puts("nobody sees this");
        write_all(ends[1], "the daemon runs\n");
        _exit(0);
    }
    CHECK(close(ends[1]) == 0);
    FINE(pid);
    char byte;
    while (read(ends[0], &byte, 1) == 1)
        putchar(byte);
    FAILS(wait(NULL), ECHILD);
}
