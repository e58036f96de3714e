// A program may redirect its own standard output to a file and back.
#include "guest.h"

int main(void) {
    puts("before");
    fflush(stdout);
    int saved = dup(1), file = open("captured", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(saved >= 0 && file >= 0 && dup2(file, 1) == 1);
    puts("into the file");
    fflush(stdout);
    CHECK(dup2(saved, 1) == 1 && close(saved) == 0 && close(file) == 0);
    puts("after");
    FILE *captured = fopen("captured", "r");
    char line[64];
    CHECK(captured && fgets(line, sizeof line, captured));
    printf("captured: %s", line);
    fprintf(stderr, "and this is standard error\n");
}
