// A peer over datagrams.
// Called as udp_lines PORT client M   sends the numbers 1 to M, one after the other, and reads an answer to each
//        or udp_lines PORT server     answers each number by its letter
//        or udp_lines PORT transfer   asks once, and goes on with whoever answers, who is not at that port, until the end
#include "net.h"

static int transfer(int fd, struct sockaddr_in *server) {
    struct sockaddr_in from, first = *server;
    char text[16] = "";
    CHECK(sendto(fd, "get", 3, 0, (struct sockaddr *)server, sizeof *server) == 3);
    for (int block = 0;; block++) {
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length);
        CHECK(from.sin_port != server->sin_port && (block == 0 || from.sin_port == first.sin_port));
        first = from;
        if (got == 3)
            return block == 2 ? 0 : 1;
        CHECK(got == 5 && sendto(fd, "more", 4, 0, (struct sockaddr *)&from, length) == 4);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    struct sockaddr_in address = at_port(atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    char text[16];
    if (strcmp(argv[2], "transfer") == 0)
        return transfer(fd, &address);
    if (strcmp(argv[2], "server") == 0) {
        CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
        for (;;) {
            struct sockaddr_in client;
            socklen_t length = sizeof client;
            ssize_t got = recvfrom(fd, text, sizeof text - 1, 0, (struct sockaddr *)&client, &length);
            CHECK(got >= 0);
            text[got] = 0;
            char letter = 'A' + atoi(text) - 1;
            CHECK(sendto(fd, &letter, 1, 0, (struct sockaddr *)&client, length) == 1);
        }
    }
    CHECK(argc == 4);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    for (int i = 0; i < atoi(argv[3]); i++) {
        int length = snprintf(text, sizeof text, "%d", i + 1);
        CHECK(send(fd, text, length, 0) == length);
        CHECK(recv(fd, text, sizeof text, 0) == 1);
    }
    return 0;
}
