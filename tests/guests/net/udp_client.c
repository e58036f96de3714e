// n threads, each with a datagram socket of its own, send the numbers 1 to m and read the letters.
// Called as udp_client PORT N M
#include "net.h"

static int port, messages;

static void *ask(void *argument) {
    struct sockaddr_in server = at_port(port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    for (int i = 0; i < messages; i++) {
        char number[16], letter[16];
        int length = snprintf(number, sizeof number, "%d", i + 1);
        CHECK(sendto(fd, number, length, 0, (struct sockaddr *)&server, sizeof server) == length);
        CHECK(recv(fd, letter, sizeof letter, 0) == 1);
        CHECK(letter[0] == 'A' + i);
    }
    close(fd);
    return argument;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    port = atoi(argv[1]);
    messages = atoi(argv[3]);
    pthread_t threads[8];
    for (int i = 0; i < atoi(argv[2]); i++)
        threads[i] = start(ask, NULL);
    for (int i = 0; i < atoi(argv[2]); i++)
        join(threads[i]);
    puts("all letters came");
    return 0;
}
