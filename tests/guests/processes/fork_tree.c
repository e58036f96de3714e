// Children of children, to a depth of four; each adds up what its own found.
#include "processes.h"

static int grow(int depth) {
    int sum = 1;
    pid_t pids[2];
    if (depth == 0)
        return sum;
    for (int i = 0; i < 2; i++)
        pids[i] = CHILD(_exit(grow(depth - 1)));
    for (int i = 0; i < 2; i++)
        sum += exit_of(pids[i]);
    return sum;
}

int main(void) {
    printf("%d processes\n", grow(3));
    // A chain in which each one waits for the next.
    int depth = 0;
    while (depth < 6) {
        pid_t pid = fork_checked();
        if (pid != 0)
            exit(depth == 0 ? printf("chain of %d\n", exit_of(pid)) < 0 : exit_of(pid) + 1);
        depth++;
    }
    exit(1);
}
