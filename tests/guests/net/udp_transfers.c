// As a TFTP server: two workers share one datagram socket, and each answers a request from a socket of its own, at which it also hears what the client
// has to say to that. With "bound" that socket is bound and connected first, otherwise it just sends. Ends after so many requests.
// Called as udp_transfers PORT REQUESTS [bound]
#include "net.h"

static int listener, is_bound;
static atomic_int left;

static int answering_socket(struct sockaddr_in *client) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    if (is_bound) {
        struct sockaddr_in here = at_port(0);
        CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
        CHECK(connect(fd, (struct sockaddr *)client, sizeof *client) == 0);
    }
    return fd;
}

static void *work(void *argument) {
    while (atomic_fetch_sub(&left, 1) > 0) {
        char text[16];
        struct sockaddr_in client, again;
        socklen_t length = sizeof client;
        CHECK(recvfrom(listener, text, sizeof text, 0, (struct sockaddr *)&client, &length) == 3);
        int fd = answering_socket(&client);
        for (int block = 0; block < 2; block++) {
            CHECK(sendto(fd, "block", 5, 0, (struct sockaddr *)&client, sizeof client) == 5);
            length = sizeof again;
            CHECK(recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&again, &length) == 4);
            CHECK(memcmp(text, "more", 4) == 0 && again.sin_port == client.sin_port);
        }
        CHECK(sendto(fd, "end", 3, 0, (struct sockaddr *)&client, sizeof client) == 3);
        CHECK(close(fd) == 0);
    }
    return argument;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    struct sockaddr_in here = at_port(atoi(argv[1]));
    listener = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(listener >= 0);
    CHECK(bind(listener, (struct sockaddr *)&here, sizeof here) == 0);
    left = atoi(argv[2]);
    is_bound = argc > 3;
    pthread_t one = start(work, NULL), two = start(work, NULL);
    join(one);
    join(two);
    return 0;
}
