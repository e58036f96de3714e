// Two workers accept from one listening socket; every connection is served by one of them.
#include "processes.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), answers = 0;
    CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
    CHECK(getsockname(listener, (void *)&address, &length) == 0);
    pid_t workers[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = fork_checked();
        if (workers[i] == 0)
            for (;;) {
                char byte;
                int s = accept(listener, NULL, NULL);
                CHECK(s >= 0 && read(s, &byte, 1) == 1);
                byte++;
                CHECK(write(s, &byte, 1) == 1 && close(s) == 0);
            }
    }
    for (int i = 0; i < 4; i++) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        char byte = (char)('a' + i);
        CHECK(connect(s, (void *)&address, sizeof address) == 0);
        CHECK(write(s, &byte, 1) == 1 && read(s, &byte, 1) == 1 && byte == 'b' + i);
        CHECK(read(s, &byte, 1) == 0 && close(s) == 0);
        answers++;
    }
    for (int i = 0; i < 2; i++) {
        CHECK(kill(workers[i], SIGTERM) == 0);
        CHECK(WTERMSIG(reap(workers[i])) == SIGTERM);
    }
    printf("%d answers\n", answers);
}
