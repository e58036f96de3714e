// exec that fails leaves the program as it was: ENOENT, EACCES, ENOEXEC, ENOTDIR.
#include "guest.h"

int main(void) {
    char *arguments[] = {"x", NULL};
    FAILS(execve("./missing", arguments, NULL), ENOENT);
    int fd = open("plain", O_WRONLY | O_CREAT, 0644);
    write_all(fd, "not a program");
    CHECK(close(fd) == 0);
    FAILS(execve("./plain", arguments, NULL), EACCES);
    FAILS(execve("./plain/x", arguments, NULL), ENOTDIR);
    CHECK(chmod("plain", 0755) == 0);
    FAILS(execve("./plain", arguments, NULL), ENOEXEC);
    FAILS(execve(".", arguments, NULL), EACCES);
    puts("still here");
}
