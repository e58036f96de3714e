// Across fork: mask and actions stay, pending signals do not. Across exec: the mask, what is ignored, and pending signals stay.
#include "processes.h"

static void handler(int number) { (void)number; }

static const char *kind(int number) {
    struct sigaction action;
    CHECK(sigaction(number, NULL, &action) == 0);
    return action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handler";
}

static void tell(const char *where) {
    sigset_t mask, pending;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigpending(&pending) == 0);
    printf("%s: HUP %s, USR2 %s, TERM %s; USR1 %s, %s\n", where, kind(SIGHUP), kind(SIGUSR2), kind(SIGTERM),
           sigismember(&mask, SIGUSR1) ? "blocked" : "open", sigismember(&pending, SIGUSR1) ? "pending" : "none");
}

int main(int argc, char **argv) {
    if (argc > 1) {
        tell("after exec");
        return 0;
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR2, handler);
    CHECK(raise(SIGUSR1) == 0);
    tell("parent");
    FINE(CHILD(tell("child")));
    FINE(CHILD(raise(SIGUSR1); execl("/proc/self/exe", argv[0], "again", NULL); _exit(98)));
}
