// A process group, a signal mask and default actions for the child.
#include "processes.h"
#include <spawn.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        sigset_t mask;
        struct sigaction action;
        CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
        CHECK(sigaction(SIGUSR2, NULL, &action) == 0);
        printf("group %s, USR1 %s, TERM %s, USR2 %s\n", getpgrp() == getpid() ? "own" : "other",
               sigismember(&mask, SIGUSR1) ? "blocked" : "open", sigismember(&mask, SIGTERM) ? "blocked" : "open",
               action.sa_handler == SIG_DFL ? "default" : "ignored");
        return 0;
    }
    posix_spawnattr_t attributes;
    sigset_t set;
    OK(posix_spawnattr_init(&attributes));
    OK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    OK(posix_spawnattr_setpgroup(&attributes, 0));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK(posix_spawnattr_setsigmask(&attributes, &set));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    OK(posix_spawnattr_setsigdefault(&attributes, &set));
    signal(SIGUSR2, SIG_IGN);
    pid_t pid;
    char *const arguments[] = {argv[0], "child", NULL};
    OK(posix_spawn(&pid, "/proc/self/exe", NULL, &attributes, arguments, environ));
    FINE(pid);
    OK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ));
    FINE(pid);
    OK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID));
    OK(posix_spawn(&pid, "/proc/self/exe", NULL, &attributes, arguments, environ));
    FINE(pid);
}
