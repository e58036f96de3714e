// Scripts: with an interpreter and its argument, without a first line (the C library asks the shell), and scripts of scripts.
#include "processes.h"

static void make(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    CHECK(fd >= 0);
    write_all(fd, text);
    CHECK(close(fd) == 0 && chmod(name, 0755) == 0);
}

int main(void) {
    make("plain", "#!/bin/sh\necho \"plain: $0 $1 $#\"\nexit 4\n");
    make("argument", "#! /bin/sh -e \necho argument\nfalse\necho not reached\n");
    make("none", "echo \"none: $1\"\n");
    make("outer", "#!./plain inner\n");
    make("missing", "#!/nowhere/interpreter\n");
    printf("%d\n", exit_of(CHILD(execl("./plain", "ignored", "one", "two", NULL))));
    printf("%d\n", exit_of(CHILD(execl("./argument", "ignored", NULL))));
    printf("%d\n", exit_of(CHILD(execl("./none", "none", "x", NULL); CHECK(errno == ENOEXEC);
                                 execlp("./none", "none", "asked the shell", NULL))));
    printf("%d\n", exit_of(CHILD(execl("./outer", "ignored", NULL))));
    printf("%d\n", exit_of(CHILD(execl("./missing", "x", NULL); _exit(errno))));
}
