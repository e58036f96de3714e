// Reads an answer once, however much that is.
// Called as reads PORT
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc > 1);
    char text[64];
    int fd = connect_to(atoi(argv[1]));
    CHECK(write(fd, "a\n", 2) == 2);
    printf("%d\n", (int)read(fd, text, sizeof text));
    return 0;
}
