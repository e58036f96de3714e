// Parent and child go on with memory of their own, and know each other's number.
#include "processes.h"

static int global = 1;

int main(void) {
    int local = 10, *heap = malloc(sizeof *heap);
    pid_t self = getpid();
    *heap = 100;
    pid_t pid = fork_checked();
    if (pid == 0) {
        CHECK(getpid() != self && getppid() == self);
        CHECK(gettid() == getpid());
        CHECK(global == 1 && local == 10 && *heap == 100);
        global = local = *heap = -1;
        printf("child: %d %d %d\n", global, local, *heap);
        exit(0);
    }
    CHECK(pid > 0 && getpid() == self);
    global++;
    CHECK(exit_of(pid) == 0);
    printf("parent: %d %d %d\n", global, local, *heap);
}
