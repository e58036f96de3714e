// A small WebDAV server: n connections, a worker each, which answers OPTIONS and PUT and GET of one shared resource.
// Called as webdav_server PORT N
#include "net.h"

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    char request[4096];
    ssize_t got = read(fd, request, sizeof request - 1);
    CHECK(got > 0);
    request[got] = 0;
    if (strncmp(request, "OPTIONS", 7) == 0)
        send_text(fd, "HTTP/1.1 200 OK\r\nDAV: 1\r\nAllow: OPTIONS, GET, PUT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else
        send_text(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int listener = listen_at(atoi(argv[1])), n = atoi(argv[2]);
    serve_in_threads(listener, n, serve);
    return 0;
}
