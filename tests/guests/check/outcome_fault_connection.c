// A connection may be refused, or break when something is said or heard.
// options: --faults refused,reset
// outcomes: "refused" "reset when writing" "reset when reading" "hello"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    assert(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    assert(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    if (connect(client, (struct sockaddr *)&at, sizeof at) != 0) {
        assert(errno == ECONNREFUSED);
        printf("refused");
        return 0;
    }
    int server = accept(listener, NULL, NULL);
    if (write(server, "hello", 5) != 5) {
        assert(errno == ECONNRESET);
        // The other end hears of it too, and then of nothing more.
        char byte;
        assert(read(client, &byte, 1) == -1 && errno == ECONNRESET);
        assert(read(client, &byte, 1) == 0);
        printf("reset when writing");
        return 0;
    }
    char text[8] = "";
    if (read(client, text, sizeof text - 1) < 0) {
        assert(errno == ECONNRESET);
        printf("reset when reading");
        return 0;
    }
    printf("%s", text);
    return 0;
}
