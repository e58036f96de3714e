// Two servers make the PID file, which only one of them can.
#include "processes.h"
#include <assert.h>

// 1 if this process is the server now.
static int serves(void) {
    int fd = open("server.pid", O_CREAT | O_WRONLY | O_EXCL, 0644);
    if (fd == -1 && errno == EEXIST)
        return 0;
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
