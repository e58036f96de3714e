// A client that goes on writing when the server has closed the connection.
// Called as after_end PLACE COUNT [early]
// It reads up to the end (unless it is early), writes COUNT times, reads once more, and prints what came of all that.
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    char byte;
    int fd = connect_to_place(argv[1]);
    if (argc == 3)
        while (read(fd, &byte, 1) > 0)
            ;
    for (int i = 0; i < atoi(argv[2]); i++)
        puts(send(fd, "y", 1, MSG_NOSIGNAL) == 1 ? "ok" : strerrorname_np(errno));
    ssize_t got = argc == 3 ? read(fd, &byte, 1) : 0;
    puts(got < 0 ? strerrorname_np(errno) : "end");
    return 0;
}
