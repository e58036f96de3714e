// popen writes to a command, which sees the end of its input when the stream is closed.
#include "processes.h"

int main(void) {
    FILE *stream = popen("sort > sorted; wc -l < sorted", "w");
    CHECK(stream != NULL);
    fputs("pear\napple\nfig\n", stream);
    CHECK(pclose(stream) == 0);
    FILE *file = fopen("sorted", "r");
    CHECK(file != NULL);
    char line[32];
    while (fgets(line, sizeof line, file))
        fputs(line, stdout);
    fclose(file);
}
