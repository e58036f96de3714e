// killpg reaches every process of a group, and no other.
#include "processes.h"

int main(void) {
    pid_t pids[3], other;
    turn go = make_turn(), ready = make_turn(), set = make_turn();
    for (int i = 0; i < 3; i++) {
        pids[i] = CHILD(await(&ready); for (;;) pause());
        CHECK(setpgid(pids[i], pids[0]) == 0);
        give(&ready);
    }
    other = CHILD(await(&go); _exit(1));
    CHECK(killpg(pids[0], 0) == 0 && killpg(pids[0], SIGTERM) == 0);
    for (int i = 0; i < 3; i++)
        printf("%d\n", WTERMSIG(reap(pids[i])));
    FAILS(killpg(pids[0], SIGTERM), ESRCH);
    give(&go);
    printf("the other: %d\n", exit_of(other));
    // Everybody of one's own group, oneself included.
    FINE(CHILD(CHECK(setpgid(0, 0) == 0); signal(SIGUSR1, SIG_IGN);
               pid_t below = CHILD(signal(SIGUSR1, SIG_DFL); give(&set); for (;;) pause());
               await(&set); CHECK(kill(0, SIGUSR1) == 0); CHECK(WTERMSIG(reap(below)) == SIGUSR1)));
    puts("own group");
}
