// popen reads what a command says, and pclose gives its status.
#include "processes.h"

int main(void) {
    char line[64];
    FILE *stream = popen("for i in 1 2 3; do echo line $i; done; exit 6", "r");
    CHECK(stream != NULL);
    while (fgets(line, sizeof line, stream))
        printf("read: %s", line);
    int status = pclose(stream);
    CHECK(WIFEXITED(status));
    printf("status %d\n", WEXITSTATUS(status));
    // Two at once.
    FILE *one = popen("cat", "w"), *two = popen("echo two", "re");
    CHECK(one && two && fgets(line, sizeof line, two));
    printf("%s", line);
    CHECK(pclose(two) == 0);
    fflush(stdout);
    fputs("one\n", one);
    CHECK(pclose(one) == 0);
}
