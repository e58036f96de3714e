// File actions happen in the child, in order, and leave the parent's descriptors alone.
#include "processes.h"
#include <spawn.h>

int main(void) {
    posix_spawn_file_actions_t actions;
    int ends[2];
    CHECK(pipe(ends) == 0 && mkdir("below", 0700) == 0);
    OK(posix_spawn_file_actions_init(&actions));
    OK(posix_spawn_file_actions_addopen(&actions, 7, "made", O_CREAT | O_WRONLY | O_TRUNC, 0600));
    OK(posix_spawn_file_actions_addclose(&actions, ends[0]));
    OK(posix_spawn_file_actions_adddup2(&actions, ends[1], 1));
    OK(posix_spawn_file_actions_addclose(&actions, ends[1]));
    OK(posix_spawn_file_actions_addchdir_np(&actions, "below"));
    char *const words[] = {"sh", "-c", "echo to the file >&7; pwd -P | sed 's,.*/,,'; touch inside", NULL};
    pid_t pid;
    OK(posix_spawn(&pid, "/bin/sh", &actions, NULL, words, environ));
    CHECK(close(ends[1]) == 0);
    char text[64] = {0};
    size_t length = 0;
    ssize_t count;
    while ((count = read(ends[0], text + length, sizeof text - length)) > 0)
        length += count;
    printf("through the pipe: %s", text);
    printf("%d\n", exit_of(pid));
    CHECK(access("below/inside", F_OK) == 0);
    FAILS(fcntl(7, F_GETFD), EBADF);
    OK(posix_spawn_file_actions_destroy(&actions));
}
