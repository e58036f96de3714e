// The same with another C library: fork, vfork, posix_spawn, popen.
// build: musl
#include "processes.h"
#include <spawn.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        puts(argv[1]);
        return 3;
    }
    printf("%d\n", exit_of(CHILD(_exit(4))));
    CHECK(fflush(stdout) == 0);
    char *words[] = {argv[0], "spawned", NULL}, line[32];
    pid_t pid;
    OK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ));
    printf("%d\n", exit_of(pid));
    FILE *stream = popen("echo from a shell", "r");
    CHECK(stream && fgets(line, sizeof line, stream));
    printf("%s", line);
    CHECK(pclose(stream) == 0);
    CHECK(posix_spawn(&pid, "/nowhere", NULL, NULL, words, environ) == ENOENT);
}
