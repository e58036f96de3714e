// A child in its parent's memory reads and stores there until it runs another program; its parent does so afterwards. Nothing of this is a race.
// options: --races
#include "processes.h"
#include <spawn.h>

static char *words[] = {"true", NULL};
static int cell;

int main(void) {
    char *text = malloc(32);
    CHECK(text);
    strcpy(text, "/bin/true");
    pid_t pid = vfork();
    if (pid == 0) {
        cell = text[0];
        execv(text, words);
        _exit(1);
    }
    CHECK(pid > 0 && cell == '/');
    cell = 0;
    memset(text, 0, 32);
    free(text);
    FINE(pid);
}
