// Replaces a file as one does: a new one is written beside it, and takes its name. With "sync" it is on the disk before.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int file = open("config.new", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (file < 0 || write(file, "new", 3) != 3)
        return 1;
    if (argc > 1 && strcmp(argv[1], "sync") == 0 && fsync(file) != 0)
        return 1;
    return close(file) != 0 || rename("config.new", "config") != 0;
}
