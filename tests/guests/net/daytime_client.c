// n threads, each opens a connection to a time server, reads the line that it sends unasked, and closes.
// Called as daytime_client PORT N
#include "net.h"

static int port;

static void *ask(void *unused) {
    (void)unused;
    char line[64];
    int fd = connect_to(port);
    CHECK(read(fd, line, sizeof line) > 0);
    CHECK(close(fd) == 0);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    port = atoi(argv[1]);
    int n = atoi(argv[2]);
    run_in_threads(n, ask);
    return 0;
}
