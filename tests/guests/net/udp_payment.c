// A request by datagram, with a time limit for its answer.
// Called as udp_payment PORT once      asks once and waits for the answer, however long
//        or udp_payment PORT retry     asks again when no answer comes, three times at most
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    struct sockaddr_in server = at_port(atoi(argv[1]));
    int retries = strcmp(argv[2], "retry") == 0;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval limit = {.tv_sec = 1};
    if (retries)
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    for (int i = 0; i < 3; i++) {
        char answer[16];
        CHECK(sendto(fd, "1", 1, 0, (struct sockaddr *)&server, sizeof server) == 1);
        if (recv(fd, answer, sizeof answer, 0) == 1) {
            write_all(1, "paid");
            return 0;
        }
    }
    write_all(1, "gave up");
    return 0;
}
