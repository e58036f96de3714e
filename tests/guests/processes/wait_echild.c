// Without children there is nothing to wait for, and bad options are bad first.
#include "processes.h"

int main(void) {
    int status;
    FAILS(wait(&status), ECHILD);
    FAILS(waitpid(-1, &status, 0), ECHILD);
    FAILS(waitpid(4711, &status, 0), ECHILD);
    FAILS(waitpid(-1, &status, 0x100), EINVAL);
    FAILS(waitpid(INT_MIN, &status, 0), ESRCH);
    siginfo_t info;
    FAILS(waitid(P_ALL, 0, &info, WEXITED), ECHILD);
    FAILS(waitid(P_ALL, 0, &info, 0), EINVAL);
    FAILS(waitid(P_ALL, 0, &info, WNOHANG), EINVAL);
    FAILS(waitid(P_PID, 0, &info, WEXITED), EINVAL);
    FAILS(waitid(99, 1, &info, WEXITED), EINVAL);
    pid_t pid = CHILD();
    FAILS(waitpid(pid, &status, 0x100), EINVAL);
    FINE(pid);
    FAILS(wait(NULL), ECHILD);
    // A bad address for the status: the child has been waited for all the same.
    pid = CHILD();
    FAILS(waitpid(pid, (int *)8, 0), EFAULT);
    FAILS(waitpid(pid, &status, 0), ECHILD);
    puts("no children");
}
