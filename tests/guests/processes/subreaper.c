// A subreaper becomes the parent of orphans below it; the attribute is not inherited.
#include "processes.h"

int main(void) {
    int is_set = -1;
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &is_set) == 0 && is_set == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &is_set) == 0 && is_set == 1);
    pid_t reaper = getpid();
    turn gone = make_turn();
    pid_t pid = fork_checked();
    if (pid == 0) {
        CHECK(prctl(PR_GET_CHILD_SUBREAPER, &is_set) == 0 && is_set == 0);
        CHILD(await(&gone); CHECK(getppid() == reaper); _exit(8));
        // Two levels at once.
        CHILD(CHILD(await(&gone); CHECK(getppid() == reaper); _exit(9)); _exit(10));
        // The third ends before its parent: its number waits for whoever comes.
        CHECK(wait(NULL) > 0);
        _exit(7);
    }
    printf("child: %d\n", exit_of(pid));
    give(&gone);
    give(&gone);
    int status, sum = 0, count = 0;
    while (wait(&status) > 0) {
        sum += WEXITSTATUS(status);
        count++;
    }
    CHECK(errno == ECHILD);
    printf("%d orphans, %d\n", count, sum);
}
