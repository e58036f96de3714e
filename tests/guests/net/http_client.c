// n threads, each makes a full HTTP/1.1 request to a web server.
// Called as http_client PORT N
#include "net.h"

static int port;

static void *get(void *unused) {
    (void)unused;
    static _Thread_local char page[8192];
    int fd = connect_to(port);
    send_text(fd, "GET /page.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    read_all(fd, page, sizeof page);
    close(fd);
    CHECK(strstr(page, " 200 ") != NULL);
    CHECK(strstr(page, "a small page") != NULL);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    port = atoi(argv[1]);
    int n = atoi(argv[2]);
    run_in_threads(n, get);
    return 0;
}
