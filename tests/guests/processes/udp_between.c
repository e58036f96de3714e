// Datagrams between processes.
#include "processes.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(server, (void *)&address, sizeof address) == 0);
    CHECK(getsockname(server, (void *)&address, &length) == 0);
    pid_t pid = fork_checked();
    if (pid == 0) {
        char text[16] = {0};
        int s = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(close(server) == 0);
        CHECK(connect(s, (void *)&address, sizeof address) == 0);
        CHECK(send(s, "question", 8, 0) == 8 && recv(s, text, sizeof text, 0) == 6);
        puts(text);
        exit(0);
    }
    char text[16] = {0};
    length = sizeof from;
    CHECK(recvfrom(server, text, sizeof text, 0, (void *)&from, &length) == 8);
    CHECK(sendto(server, "answer", 6, 0, (void *)&from, length) == 6);
    FINE(pid);
    puts(text);
}
