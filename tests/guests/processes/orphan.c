// A process whose parent is gone has another one, and lives on.
#include "processes.h"

int main(void) {
    turn ready = make_turn(), gone = make_turn(), done = make_turn();
    pid_t pid = fork_checked();
    if (pid == 0) {
        pid_t middle = getpid();
        pid_t grandchild = fork_checked();
        if (grandchild == 0) {
            CHECK(getppid() == middle);
            give(&ready);
            await(&gone);
            CHECK(getppid() != middle);
            puts("an orphan");
            fflush(stdout);
            give(&done);
            _exit(0);
        }
        await(&ready);
        _exit(2);
    }
    printf("middle: %d\n", exit_of(pid));
    CHECK(fflush(stdout) == 0);
    give(&gone);
    await(&done);
    // It is nobody's child here.
    FAILS(wait(NULL), ECHILD);
    puts("end");
}
