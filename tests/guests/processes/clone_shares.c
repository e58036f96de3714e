// Processes that share their descriptors, their directory and umask, or both, and what belongs to neither.
#include "processes.h"

static pid_t raw(unsigned long flags) {
    CHECK(fflush(NULL) == 0);
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);
}

static void with(const char *what, unsigned long flags) {
    int fd = open("/dev/null", O_RDONLY);
    CHECK(fd >= 0 && chdir("/") == 0);
    umask(022);
    pid_t pid = raw(flags);
    if (pid == 0) {
        CHECK(dup2(fd, 77) == 77 && close(fd) == 0 && chdir("/tmp") == 0);
        umask(0123);
        _exit(0);
    }
    FINE(pid);
    char directory[100];
    CHECK(getcwd(directory, sizeof directory));
    printf("%s: new %d, old %d, in %s, umask %o\n", what, fcntl(77, F_GETFD), fcntl(fd, F_GETFD), directory, umask(022));
    close(77);
    close(fd);
}

int main(void) {
    with("nothing", 0);
    with("descriptors", CLONE_FILES);
    with("directory", CLONE_FS);
    with("both", CLONE_FILES | CLONE_FS);
    FAILS(raw(CLONE_SIGHAND), EINVAL);
    // One that has them for itself again.
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = raw(CLONE_FILES);
    if (pid == 0) {
        CHECK(unshare(CLONE_FILES) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
        _exit(0);
    }
    FINE(pid);
    CHECK(fcntl(ends[0], F_GETFD) == 0);
    // Another program has its own, too; and the end of one that shares closes nothing.
    pid = raw(CLONE_FILES | CLONE_VFORK);
    if (pid == 0) {
        CHECK(fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    FINE(pid);
    printf("kept, with flag %d\n", fcntl(ends[0], F_GETFD));
    CHECK(close(ends[1]) == 0);
    char byte;
    printf("end: %zd\n", read(ends[0], &byte, 1));
    FAILS(unshare(0x1), EINVAL);
    CHECK(unshare(0) == 0);
}
