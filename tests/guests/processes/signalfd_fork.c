// A signalfd tells whoever reads it of the reader's own signals.
#include "processes.h"
#include <poll.h>
#include <sys/signalfd.h>

int main(void) {
    sigset_t set;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    CHECK(fd >= 0 && raise(SIGUSR1) == 0);
    pid_t pid = CHILD(FAILS(read(fd, &info, sizeof info), EAGAIN); raise(SIGUSR1);
                      CHECK(read(fd, &info, sizeof info) == sizeof info); CHECK((pid_t)info.ssi_pid == getpid());
                      _exit(9));
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    CHECK(info.ssi_signo == SIGUSR1 && (pid_t)info.ssi_pid == getpid());
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    CHECK(poll(&polled, 1, -1) == 1 && read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGCHLD);
    CHECK((pid_t)info.ssi_pid == pid && info.ssi_code == CLD_EXITED);
    printf("%d %d\n", info.ssi_status, exit_of(pid));
}
