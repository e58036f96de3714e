// A child runs another program: same number and parent, other memory, the arguments and environment it was given.
#include "processes.h"

static int global;

int main(int argc, char **argv) {
    if (argc > 1) {
        CHECK(global == 0);
        CHECK(getpid() == atoi(argv[2]) && getppid() == atoi(argv[3]));
        printf("%s [%s] %s\n", argv[1], argv[4], getenv("ONLY"));
        return 5;
    }
    pid_t parent = getpid(), pid = fork_checked();
    if (pid == 0) {
        char own[16], other[16];
        global = 9;
        snprintf(own, sizeof own, "%d", getpid());
        snprintf(other, sizeof other, "%d", parent);
        char *arguments[] = {argv[0], "replaced", own, other, "with spaces, \"quotes\"", NULL};
        char *environment[] = {"ONLY=this", NULL};
        execve("/proc/self/exe", arguments, environment);
        _exit(98);
    }
    printf("%d\n", exit_of(pid));
    // By descriptor, and by a path relative to one.
    int fd = open("/bin/echo", O_RDONLY | O_CLOEXEC), directory = open("/bin", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && directory >= 0);
    char *words[] = {"echo", "by descriptor", NULL};
    FINE(CHILD(fexecve(fd, words, environ)));
    words[1] = "by directory";
    FINE(CHILD(syscall(SYS_execveat, directory, "echo", words, environ, 0)));
}
