// posix_spawn that fails says why, and leaves no child behind.
#include "processes.h"
#include <spawn.h>

int main(void) {
    pid_t pid = -5;
    char *const arguments[] = {"x", NULL};
    printf("missing: %s\n", strerror(posix_spawn(&pid, "/nowhere/program", NULL, NULL, arguments, environ)));
    FAILS(wait(NULL), ECHILD);
    printf("directory: %s\n", strerror(posix_spawn(&pid, "/", NULL, NULL, arguments, environ)));
    FAILS(wait(NULL), ECHILD);
    int fd = open("text", O_CREAT | O_WRONLY, 0755);
    CHECK(fd >= 0);
    write_all(fd, "no program");
    CHECK(close(fd) == 0);
    printf("no program: %s\n", strerror(posix_spawn(&pid, "./text", NULL, NULL, arguments, environ)));
    posix_spawn_file_actions_t actions;
    OK(posix_spawn_file_actions_init(&actions));
    OK(posix_spawn_file_actions_adddup2(&actions, 77, 1));
    printf("bad action: %s\n", strerror(posix_spawn(&pid, "/bin/true", &actions, NULL, arguments, environ)));
    FAILS(wait(NULL), ECHILD);
    CHECK(pid == -5);
}
