// A TCP server that forks for each connection, and clients that are processes too.
#include "processes.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void serve(int s) {
    char text[64];
    ssize_t count;
    while ((count = read(s, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < count; i++)
            text[i] = (char)(text[i] - 'a' + 'A');
        CHECK(write(s, text, count) == count);
    }
    CHECK(count == 0);
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
    CHECK(getsockname(listener, (void *)&address, &length) == 0);
    pid_t server = fork_checked();
    if (server == 0) {
        for (int i = 0; i < 2; i++) {
            int s = accept(listener, NULL, NULL);
            CHECK(s >= 0);
            CHILD(close(listener); serve(s));
            CHECK(close(s) == 0);
        }
        for (int i = 0; i < 2; i++)
            CHECK(wait(NULL) > 0);
        _exit(0);
    }
    CHECK(close(listener) == 0);
    pid_t clients[2];
    for (int i = 0; i < 2; i++)
        clients[i] = CHILD(int s = socket(AF_INET, SOCK_STREAM, 0); char text[4] = {0};
                           CHECK(connect(s, (void *)&address, sizeof address) == 0);
                           write_all(s, i ? "two" : "one"); CHECK(recv(s, text, 3, MSG_WAITALL) == 3);
                           CHECK(strcmp(text, i ? "TWO" : "ONE") == 0); CHECK(shutdown(s, SHUT_WR) == 0);
                           CHECK(read(s, text, 1) == 0));
    FINE(clients[0]);
    FINE(clients[1]);
    FINE(server);
    puts("two connections served");
}
