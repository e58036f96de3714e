// Two servers look for the PID file, find none, and both take the place.
// expect: assert
// min-preemptions: 1
#include "processes.h"
#include <assert.h>

// 1 if this process is the server now.
static int serves(void) {
    if (access("server.pid", F_OK) == 0)
        return 0;
    int fd = open("server.pid", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(fd >= 0 && dprintf(fd, "%d\n", getpid()) > 0 && close(fd) == 0);
    return 1;
}

int main(void) {
    pid_t pid = CHILD(_exit(serves()));
    int servers = serves();
    servers += exit_of(pid);
    CHECK(unlink("server.pid") == 0);
    assert(servers == 1);
}
