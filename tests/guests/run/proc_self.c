// /proc/self: maps is readable and names the program, status and fd exist, cmdline holds the arguments.
// args: argument
#include "guest.h"
#include <dirent.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[PATH_MAX + 200], exe[PATH_MAX] = {0};
    int found = 0, lines = 0;
    CHECK(maps && readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2 && from < to);
        found |= strstr(line, exe) != NULL;
        lines++;
    }
    CHECK(fclose(maps) == 0);
    printf("maps names the program: %d, several lines: %d\n", found, lines > 4);
    char text[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t got = read(fd, text, sizeof text);
    CHECK(got > 9 && strcmp(text + strlen(argv[0]) + 1, "argument") == 0);
    DIR *fds = opendir("/proc/self/fd");
    CHECK(fds && readdir(fds) && closedir(fds) == 0);
    puts("cmdline and fd are there");
}
