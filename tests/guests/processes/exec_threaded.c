// A thread that is not the first runs another program: all others are gone, the number stays.
#include "processes.h"

static turn never;

static void *waits(void *argument) {
    await(&never);
    return argument;
}

static void *replaces(void *argument) {
    char number[16];
    snprintf(number, sizeof number, "%d", getpid());
    CHECK(gettid() != getpid());
    execl("/proc/self/exe", argument, "again", number, NULL);
    _exit(98);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        CHECK(getpid() == atoi(argv[2]) && gettid() == getpid());
        puts("one thread, the same process");
        return 6;
    }
    never = make_turn();
    pid_t pid = fork_checked();
    if (pid == 0) {
        start(waits, NULL);
        join(start(replaces, argv[0]));
    }
    printf("%d\n", exit_of(pid));
}
