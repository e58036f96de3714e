// Datagrams between sockets of one program: connected and not, who sent them, truncation.
#include "net.h"

int main(void) {
    struct sockaddr_in here = at_port(0), from;
    socklen_t length = sizeof here;
    char buffer[16];
    int server = socket(AF_INET, SOCK_DGRAM, 0), client = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(server, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&here, &length) == 0);
    FAILS(send(client, "x", 1, 0), EDESTADDRREQ);
    CHECK(sendto(client, "question", 8, 0, (struct sockaddr *)&here, sizeof here) == 8);
    length = sizeof from;
    CHECK(recvfrom(server, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length) == 8);
    CHECK(from.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && from.sin_port != 0);
    CHECK(sendto(server, "answer", 6, 0, (struct sockaddr *)&from, length) == 6);
    CHECK(recv(client, buffer, 3, MSG_TRUNC) == 6);
    FAILS(recv(client, buffer, 3, MSG_DONTWAIT), EAGAIN);
    CHECK(connect(client, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(write(client, "again", 5) == 5);
    CHECK(write(client, "", 0) == 0);
    CHECK(read(server, buffer, sizeof buffer) == 5);
    CHECK(read(server, buffer, sizeof buffer) == 0);
    close(server);
    CHECK(write(client, "gone", 4) == 4);
    FAILS(read(client, buffer, sizeof buffer), ECONNREFUSED);
    puts("done");
    return 0;
}
