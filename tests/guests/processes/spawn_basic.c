// posix_spawn and posix_spawnp run programs with arguments and an environment.
#include "processes.h"
#include <spawn.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("%s, %s, %s\n", argv[1], getenv("WORD"), getenv("HOME") ? "home" : "no home");
        return 3;
    }
    pid_t pid;
    char *const arguments[] = {argv[0], "spawned", NULL}, *const environment[] = {"WORD=hello", NULL};
    OK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environment));
    printf("%d\n", exit_of(pid));
    char *const echo[] = {"echo", "found", "in", "PATH", NULL};
    CHECK(fflush(stdout) == 0);
    CHECK(setenv("PATH", "/usr/bin:/bin", 1) == 0);
    OK(posix_spawnp(&pid, "echo", NULL, NULL, echo, environ));
    printf("%d\n", exit_of(pid));
}
