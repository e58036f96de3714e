// Asks two questions and reads the two answers, four bytes each. A read need not return both.
// Called as pieces PORT buggy|fixed
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int fd = connect_to(atoi(argv[1]));
    char answers[9] = "";
    CHECK(write(fd, "a\n", 2) == 2);
    CHECK(write(fd, "b\n", 2) == 2);
    ssize_t length = read(fd, answers, 8);
    while (!strcmp(argv[2], "fixed") && length < 8)
        length += read(fd, answers + length, 8 - length);
    fputs(answers, stdout);
    return 0;
}
