// Groups in the foreground and in the background: who reads is stopped, who writes only where that is asked for, and the leader decides.
#include "terminals.h"

static int stop_of(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    return WSTOPSIG(status);
}

static void lead(terminal t) {
    CHECK(setsid() == getpid() && ioctl(t.slave, TIOCSCTTY, 0) == 0 && tcgetpgrp(t.slave) == getpid());
    // It changes who is in the foreground from the background, too.
    CHECK(signal(SIGTTOU, SIG_IGN) != SIG_ERR);
    pid_t job = CHILD(CHECK(setpgid(0, 0) == 0); signal(SIGTTOU, SIG_DFL); write_all(t.slave, "background\n");
                      expect(t.slave, "line\n"); write_all(t.slave, "read\n"));
    setpgid(job, job);
    CHECK(stop_of(job) == SIGTTIN);
    CHECK(tcsetpgrp(t.slave, job) == 0 && tcgetpgrp(t.slave) == job && kill(-job, SIGCONT) == 0);
    FINE(job);
    CHECK(tcsetpgrp(t.slave, getpid()) == 0);
    FAILS(tcsetpgrp(t.slave, 54321), ESRCH);
    // With TOSTOP writing is no better than reading; changing the settings never is.
    set_local(t.slave, TOSTOP, 0);
    job = CHILD(CHECK(setpgid(0, 0) == 0); signal(SIGTTOU, SIG_DFL); write_all(t.slave, "held back\n"));
    setpgid(job, job);
    CHECK(stop_of(job) == SIGTTOU && kill(job, SIGKILL) == 0 && WTERMSIG(reap(job)) == SIGKILL);
    set_local(t.slave, 0, TOSTOP);
    job = CHILD(CHECK(setpgid(0, 0) == 0); signal(SIGTTOU, SIG_DFL); set_local(t.slave, 0, ECHO));
    setpgid(job, job);
    CHECK(stop_of(job) == SIGTTOU && tcsetpgrp(t.slave, job) == 0 && kill(job, SIGCONT) == 0);
    FINE(job);
    // One that does not want to be stopped gets an error.
    CHECK(tcsetpgrp(t.slave, getpid()) == 0);
    job = CHILD(CHECK(setpgid(0, 0) == 0); signal(SIGTTIN, SIG_IGN); char byte; FAILS(read(t.slave, &byte, 1), EIO));
    setpgid(job, job);
    FINE(job);
    write_all(t.slave, "done\n");
}

int main(void) {
    terminal t = make_terminal();
    set_local(t.slave, 0, ECHO);
    pid_t leader = CHILD(lead(t));
    expect(t.master, "background\r\n");
    write_all(t.master, "line\n");
    expect(t.master, "read\r\ndone\r\n");
    FINE(leader);
    puts("job control");
}
