// Programs that the program itself has written: run by name, by descriptor, under another name, for a script, from memory.
#include "processes.h"
#include <sys/mman.h>

extern char **environ;

static void copy_self(int out) {
    int in = open("/proc/self/exe", O_RDONLY);
    CHECK(in >= 0);
    char buffer[4096];
    ssize_t got;
    while ((got = read(in, buffer, sizeof buffer)) > 0)
        CHECK(write(out, buffer, (size_t)got) == got);
    CHECK(got == 0 && close(in) == 0);
}

static void run(const char *path, int fd, const char *word) {
    char *const argv[] = {"program", (char *)word, NULL};
    CHECK(fflush(NULL) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (fd >= 0)
            fexecve(fd, argv, environ);
        else
            execv(path, argv);
        _exit(errno);
    }
    printf("%s: %d\n", word, exit_of(pid));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        char path[200];
        ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
        CHECK(length > 0);
        path[length] = 0;
        printf("%s runs as %s\n", argv[1], strrchr(path, '/'));
        return 99;
    }
    int out = open("copy", O_WRONLY | O_CREAT, 0755);
    CHECK(out >= 0);
    copy_self(out);
    CHECK(close(out) == 0);
    run("./copy", -1, "one");
    int fd = open("copy", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    run(NULL, fd, "two");
    CHECK(rename("copy", "moved") == 0);
    run("./moved", -1, "three");
    FILE *script = fopen("script", "w");
    CHECK(script && fprintf(script, "#!./moved four\n") > 0 && fclose(script) == 0 && chmod("script", 0755) == 0);
    run("./script", -1, "script");
    CHECK(chmod("moved", 0644) == 0);
    run("./moved", -1, "denied");
    int memory = memfd_create("memory", 0);
    CHECK(memory >= 0);
    copy_self(memory);
    run(NULL, memory, "six");
}
