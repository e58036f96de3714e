// WNOHANG does not wait: 0 as long as the child lives, its number when it has ended, ECHILD afterwards.
#include "processes.h"

int main(void) {
    int status = 12345;
    turn go = make_turn();
    FAILS(waitpid(-1, &status, WNOHANG), ECHILD);
    pid_t pid = CHILD(await(&go); _exit(5));
    CHECK(waitpid(pid, &status, WNOHANG) == 0 && status == 12345);
    CHECK(waitpid(-1, &status, WNOHANG) == 0);
    CHECK(waitpid(0, &status, WNOHANG) == 0);
    give(&go);
    pid_t found;
    while ((found = waitpid(pid, &status, WNOHANG)) == 0)
        sched_yield();
    CHECK(found == pid && WIFEXITED(status));
    printf("status %d\n", WEXITSTATUS(status));
    FAILS(waitpid(pid, &status, WNOHANG), ECHILD);
    // With siginfo, "nobody yet" is an answer with zeros.
    pid = CHILD(await(&go); _exit(6));
    siginfo_t info;
    memset(&info, 0xff, sizeof info);
    CHECK(waitid(P_PID, pid, &info, WEXITED | WNOHANG) == 0);
    CHECK(info.si_pid == 0 && info.si_signo == 0);
    give(&go);
    CHECK(waitid(P_PID, pid, &info, WEXITED) == 0 && info.si_pid == pid);
    printf("status %d\n", info.si_status);
}
