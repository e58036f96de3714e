// A client that takes the number in an answer for the place of something that it has.
// Called as trusts PORT
#include "net.h"
#include <assert.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static const char *const names[] = {"ann", "bob", "cyd", "dan"};
    char answer[64];
    int fd = connect_to(atoi(argv[1]));
    send_text(fd, "who\n");
    CHECK(read_line(fd, answer, sizeof answer) > 0);
    int number = atoi(answer);
    assert(number >= 0 && number < (int)(sizeof names / sizeof *names));
    puts(names[number]);
    return 0;
}
