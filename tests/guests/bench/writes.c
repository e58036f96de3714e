// One connection, on which so many lines are written; the answers are left unread.
// Called as writes PORT COUNT
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int fd = connect_to(atoi(argv[1]));
    for (int i = 0; i < atoi(argv[2]); i++)
        send_text(fd, "1\n");
    return 0;
}
