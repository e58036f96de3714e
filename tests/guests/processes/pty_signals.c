// Characters that are signals go to the group in the foreground; closing the master hangs the session up; a new size is told.
#include "terminals.h"

static volatile sig_atomic_t got[65];

static void note(int signo) { got[signo] = 1; }

static void await_signal(int signo) {
    sigset_t all, none;
    sigfillset(&all), sigemptyset(&none);
    while (!got[signo])
        sigsuspend(&none);
    got[signo] = 0;
}

int main(void) {
    terminal t = make_terminal();
    turn ready = make_turn();
    pid_t pid = CHILD(
        CHECK(close(t.master) == 0 && setsid() == getpid() && ioctl(t.slave, TIOCSCTTY, 0) == 0);
        sigset_t all; sigfillset(&all); CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
        for (int i = 0; i < 5; i++) signal((int[]){SIGINT, SIGQUIT, SIGTSTP, SIGWINCH, SIGHUP}[i], note);
        give(&ready); await_signal(SIGINT); puts("interrupted");
        await_signal(SIGQUIT); puts("told to quit");
        await_signal(SIGTSTP); puts("told to stop");
        await_signal(SIGWINCH); puts("resized"); give(&ready);
        await_signal(SIGHUP); puts("hung up"); char byte; CHECK(read(t.slave, &byte, 1) == 0));
    await(&ready);
    write_all(t.master, "ignored\003");
    write_all(t.master, "\034");
    write_all(t.master, "\032");
    struct winsize size = {10, 20, 0, 0};
    CHECK(ioctl(t.master, TIOCSWINSZ, &size) == 0 && ioctl(t.master, TIOCSWINSZ, &size) == 0);
    await(&ready);
    CHECK(close(t.slave) == 0 && close(t.master) == 0);
    FINE(pid);
}
