// A client peer.
// Called as lines_client PLACE alphabet M   sends the numbers 1 to M, one after the other, and checks the letters
//        or lines_client PLACE chat ID N    sends "from ID" and reads N lines
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    int fd = connect_to_place(argv[1]);
    char line[256];
    if (strcmp(argv[2], "alphabet") == 0) {
        for (int i = 0; i < atoi(argv[3]); i++) {
            snprintf(line, sizeof line, "%d\n", i + 1);
            send_text(fd, line);
            CHECK(read(fd, line, 1) == 1);
            CHECK(line[0] == 'A' + i);
        }
    } else {
        snprintf(line, sizeof line, "from %s\n", argv[3]);
        send_text(fd, line);
        for (int i = 0; i < atoi(argv[4]); i++)
            CHECK(read_line(fd, line, sizeof line) >= 0);
    }
    close(fd);
    return 0;
}
