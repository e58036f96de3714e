// kill between processes: handlers run there, and the error numbers are those of kill.
#include "processes.h"

static volatile sig_atomic_t count;
static pid_t sender;

static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(number == SIGUSR1 && info->si_code == SI_USER && info->si_pid == sender);
    count++;
}

int main(void) {
    turn ready = make_turn(), go = make_turn();
    sender = getpid();
    pid_t pid = fork_checked();
    if (pid == 0) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
        CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
        for (int i = 1; i <= 3; i++) {
            give(&ready);
            await(&go);
            CHECK(count == i);
        }
        _exit(count);
    }
    for (int i = 0; i < 3; i++) {
        await(&ready);
        CHECK(kill(pid, 0) == 0 && kill(pid, SIGUSR1) == 0);
        give(&go);
    }
    printf("%d\n", exit_of(pid));
    FAILS(kill(pid, SIGUSR1), ESRCH);
    pid = CHILD(await(&go));
    FAILS(kill(pid, 65), EINVAL);
    FAILS(syscall(SYS_tgkill, getpid(), pid, SIGUSR1), ESRCH);
    CHECK(syscall(SYS_tgkill, pid, pid, 0) == 0);
    give(&go);
    FINE(pid);
}
