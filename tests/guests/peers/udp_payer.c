// Sends each of its arguments as a datagram, and does not wait for an answer.
// Called as udp_payer PORT TEXT...
#include "net.h"

int main(int argc, char **argv) {
    struct sockaddr_in address = at_port(atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    for (int i = 2; i < argc; i++)
        CHECK(sendto(fd, argv[i], strlen(argv[i]), 0, (struct sockaddr *)&address, sizeof address) > 0);
    return 0;
}
