// Accepts n connections, one worker each, and serves a small page. With "counter" the page says how many requests were served so
// far. The increment is atomic, the handling is not, so the answer depends on the schedule. With "clock" it has the time in its
// footer, as pws does.
// Called as http_server PORT N [counter|clock]
#include "net.h"

static atomic_int served;
static const char *kind = "";

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    char request[4096], page[256], answer[512];
    ssize_t got = read(fd, request, sizeof request - 1);
    CHECK(got > 0);
    if (strcmp(kind, "counter") == 0)
        snprintf(page, sizeof page, "request %d\n", atomic_fetch_add(&served, 1) + 1);
    else if (strcmp(kind, "clock") == 0)
        snprintf(page, sizeof page, "a small page\n%ld\n", (long)time(NULL));
    else
        snprintf(page, sizeof page, "a small page\n");
    snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(page),
             page);
    send_text(fd, answer);
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    int listener = listen_at(atoi(argv[1])), n = atoi(argv[2]);
    if (argc > 3)
        kind = argv[3];
    serve_in_threads(listener, n, serve);
    return 0;
}
