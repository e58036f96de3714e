// How signalfd behaves: blocked signals are read as records with sender and value; standard ones merge; EAGAIN when empty.
#include "guest.h"
#include <sys/signalfd.h>

int main(void) {
    sigset_t set;
    struct signalfd_siginfo info[4];
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(fd >= 0);
    FAILS(read(fd, info, sizeof info), EAGAIN);
    CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 11}) == 0);
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 22}) == 0);
    ssize_t got = read(fd, info, sizeof info);
    printf("records %ld\n", (long)(got / (ssize_t)sizeof *info));
    CHECK(info[0].ssi_signo == SIGUSR1 && info[0].ssi_pid == (unsigned)getpid() && info[0].ssi_code == SI_USER);
    CHECK(info[1].ssi_signo == (unsigned)SIGRTMIN && info[1].ssi_code == SI_QUEUE);
    printf("values %d %d\n", info[1].ssi_int, info[2].ssi_int);
    FAILS(read(fd, info, sizeof info), EAGAIN);
}
