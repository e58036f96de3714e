// vfork(): the child uses its parent's memory, which stands still until the child runs another program.
#include "processes.h"

static volatile int written;

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("another program, parent %s\n", getppid() == atoi(argv[2]) ? "known" : "unknown");
        return 12;
    }
    char number[16];
    snprintf(number, sizeof number, "%d", getpid());
    char *const arguments[] = {argv[0], "again", number, NULL};
    pid_t pid = vfork();
    if (pid == 0) {
        written = 5;
        execv("/proc/self/exe", arguments);
        _exit(98);
    }
    CHECK(pid > 0 && written == 5);
    printf("%d\n", exit_of(pid));
    // A program that is not there: the child says so in its parent's memory.
    pid = vfork();
    if (pid == 0) {
        execv("/nowhere/to/be/found", arguments);
        written = errno;
        _exit(1);
    }
    CHECK(written == ENOENT && exit_of(pid) == 1);
    puts("no such program");
}
