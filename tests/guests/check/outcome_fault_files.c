// A file may find no space when it is made or written, its device may fail, and descriptors may run out.
// options: --faults nospace,ioerror,nofiles --forbid zzz
// outcomes: "no file: 28" "no file: 24" "no write: 28" "no write: 5" "no sync: 28" "no sync: 5" "saved"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Its own output is not to fail: that would be another outcome.
static int say(const char *what, int error) {
    char line[32];
    if (error)
        snprintf(line, sizeof line, "%s: %d", what, error);
    else
        snprintf(line, sizeof line, "%s", what);
    while (write(1, line, strlen(line)) < 0) {
    }
    return 0;
}

int main(void) {
    int file = open("outcome_fault_files.tmp", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (file < 0)
        return say("no file", errno);
    if (write(file, "data", 4) != 4)
        return say("no write", errno);
    if (fsync(file) != 0)
        return say("no sync", errno);
    return say("saved", 0);
}
