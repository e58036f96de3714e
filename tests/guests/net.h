// What the networked guests and their peers share: connecting, listening, lines.
#ifndef NET_H
#define NET_H
#include "guest.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static inline struct sockaddr_in at_port(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline int connect_to(int port) {
    struct sockaddr_in address = at_port(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static inline int listen_at(int port) {
    struct sockaddr_in address = at_port(port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, 16) == 0);
    return fd;
}

// An address as an argument: PORT (of 127.0.0.1), HOST:PORT, [IPV6]:PORT, or the PATH of a Unix socket.
struct place {
    struct sockaddr_storage address;
    socklen_t length;
};

static inline struct place place_of(const char *text) {
    struct place place = {.length = 0};
    const char *colon = strrchr(text, ':');
    if (strchr(text, '/')) {
        struct sockaddr_un *path = (struct sockaddr_un *)&place.address;
        path->sun_family = AF_UNIX;
        CHECK(strlen(text) < sizeof path->sun_path);
        strcpy(path->sun_path, text);
        place.length = sizeof *path;
    } else if (!colon) {
        struct sockaddr_in address = at_port(atoi(text));
        memcpy(&place.address, &address, place.length = sizeof address);
    } else {
        char host[64];
        struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *found;
        int bracket = text[0] == '[';
        snprintf(host, sizeof host, "%.*s", (int)(colon - text) - 2 * bracket, text + bracket);
        CHECK(getaddrinfo(host, colon + 1, &hint, &found) == 0);
        memcpy(&place.address, found->ai_addr, place.length = found->ai_addrlen);
        freeaddrinfo(found);
    }
    return place;
}

static inline int connect_to_place(const char *text) {
    struct place place = place_of(text);
    int fd = socket(place.address.ss_family, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&place.address, place.length) == 0);
    return fd;
}

static inline int listen_at_place(const char *text) {
    struct place place = place_of(text);
    int one = 1, fd = socket(place.address.ss_family, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    if (place.address.ss_family != AF_UNIX)
        CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, (struct sockaddr *)&place.address, place.length) == 0);
    CHECK(listen(fd, 16) == 0);
    return fd;
}

// Listens at a port of the kernel's choice, which is put into `port`.
static inline int listen_anywhere(int *port) {
    struct sockaddr_in address = at_port(0);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    CHECK(length == sizeof address && address.sin_port != 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void send_text(int fd, const char *text) {
    size_t length = strlen(text);
    CHECK(write(fd, text, length) == (ssize_t)length);
}

// Reads one line, without its end; -1 at the end of the stream.
static inline int read_line(int fd, char *line, int size) {
    int length = 0;
    for (;;) {
        char c;
        ssize_t got = read(fd, &c, 1);
        CHECK(got >= 0);
        if (got == 0)
            return -1;
        if (c == '\n')
            break;
        if (c != '\r' && length < size - 1)
            line[length++] = c;
    }
    line[length] = 0;
    return length;
}

// Reads until the end of the stream, or until the buffer is full.
static inline int read_all(int fd, char *buffer, int size) {
    int length = 0;
    for (;;) {
        ssize_t got = read(fd, buffer + length, size - 1 - length);
        CHECK(got >= 0);
        if (got == 0)
            break;
        length += got;
    }
    buffer[length] = 0;
    return length;
}
// Runs `routine` in n threads and waits for all of them.
static inline void run_in_threads(int n, void *(*routine)(void *)) {
    pthread_t threads[8];
    CHECK(n <= 8);
    for (int i = 0; i < n; i++)
        threads[i] = start(routine, NULL);
    for (int i = 0; i < n; i++)
        OK(pthread_join(threads[i], NULL));
}

// Accepts n clients, one thread each, which gets the descriptor as its argument; waits for all of them.
static inline void serve_in_threads(int listener, int n, void *(*serve)(void *)) {
    pthread_t threads[8];
    CHECK(n <= 8);
    for (int i = 0; i < n; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        threads[i] = start(serve, (void *)(long)fd);
    }
    for (int i = 0; i < n; i++)
        OK(pthread_join(threads[i], NULL));
}

#endif
