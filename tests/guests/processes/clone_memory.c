// A process in the memory of another: with and without its handlers, its descriptors and its directory.
#include "processes.h"
#include <sys/mman.h>

static volatile int cell, handled;
static int ends[2];

static void first(int signo) {
    (void)signo;
    handled += 1;
}

static void second(int signo) {
    (void)signo;
    handled += 100;
}

static int child(void *unused) {
    (void)unused;
    cell += 5;
    CHECK(signal(SIGUSR1, second) != SIG_ERR && chdir("/tmp") == 0 && close(ends[0]) == 0);
    _exit(7);
}

static void with(const char *what, int flags) {
    enum { SIZE = 1 << 16 };
    char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && pipe(ends) == 0 && chdir("/") == 0);
    CHECK(signal(SIGUSR1, first) != SIG_ERR);
    cell = handled = 0;
    CHECK(fflush(NULL) == 0);
    pid_t pid = clone(child, stack + SIZE, flags | SIGCHLD, NULL);
    CHECK(pid > 0);
    int status = exit_of(pid);
    CHECK(raise(SIGUSR1) == 0);
    char directory[100];
    CHECK(getcwd(directory, sizeof directory));
    printf("%s: %d, cell %d, handled %d, in %s, descriptor %d\n", what, status, cell, handled, directory, fcntl(ends[0], F_GETFD));
    close(ends[0]);
    close(ends[1]);
    CHECK(munmap(stack, SIZE) == 0);
}

int main(void) {
    with("memory", CLONE_VM);
    with("handlers", CLONE_VM | CLONE_SIGHAND);
    with("descriptors", CLONE_VM | CLONE_FILES);
    with("directory", CLONE_VM | CLONE_FS);
    with("all", CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND);
    with("all, one waits", CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_FILES | CLONE_SIGHAND);
    with("nothing, one waits", CLONE_VFORK);
}
