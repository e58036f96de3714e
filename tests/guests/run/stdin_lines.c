// Standard input is read line by line, to its end.
// stdin: first line\nsecond line\nlast without newline
#include "guest.h"

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    int number = 0;
    for (ssize_t got; (got = getline(&line, &capacity, stdin)) >= 0;)
        printf("%d (%ld bytes): %s%s", ++number, (long)got, line, line[got - 1] == '\n' ? "" : "\n");
    CHECK(feof(stdin) && !ferror(stdin));
    free(line);
}
