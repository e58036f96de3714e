// A client thread and a server thread of one program over TCP: lines there and back, half-close, the end of the stream.
#include "net.h"

static int port;

static void *client(void *unused) {
    (void)unused;
    char line[64];
    int fd = connect_to(port);
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &length) == 0);
    CHECK(ntohs(peer.sin_port) == port);
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        send_text(fd, line);
        CHECK(read_line(fd, line, sizeof line) > 0);
        printf("answer %s\n", line);
    }
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(read_line(fd, line, sizeof line) > 0);
    printf("last %s\n", line);
    CHECK(read(fd, line, sizeof line) == 0);
    close(fd);
    return NULL;
}

int main(void) {
    int listener = listen_anywhere(&port);
    pthread_t thread = start(client, NULL);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int fd = accept4(listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC);
    CHECK(fd >= 0 && from.sin_family == AF_INET && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    char line[64], answer[80];
    while (read_line(fd, line, sizeof line) >= 0) {
        snprintf(answer, sizeof answer, "<%s>\n", line);
        send_text(fd, answer);
    }
    send_text(fd, "goodbye\n");
    close(fd);
    OK(pthread_join(thread, NULL));
    close(listener);
    return 0;
}
