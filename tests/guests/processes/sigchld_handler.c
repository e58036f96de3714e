// SIGCHLD tells who ended and how; several that end at once may make one signal, so the handler waits for all.
#include "processes.h"

static atomic_int reaped, sum;

static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    int status, saved = errno;
    CHECK(number == SIGCHLD && info->si_signo == SIGCHLD && info->si_code == CLD_EXITED);
    CHECK(info->si_pid > 0 && info->si_uid == getuid());
    while (waitpid(-1, &status, WNOHANG) > 0) {
        reaped++;
        sum += WEXITSTATUS(status);
    }
    errno = saved;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t block, none;
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &block, NULL) == 0);
    for (int i = 1; i <= 5; i++)
        CHILD(_exit(i));
    while (reaped < 5)
        sigsuspend(&none);
    printf("%d children, %d\n", (int)reaped, (int)sum);
}
