// A peer of any manners: what it says is a function of all the bytes that it was told on that connection, and of a seed.
// Called as scripted_peer PLACE server MANNERS SEED      any number of connections, with poll
//        or scripted_peer PLACE client MANNERS SEED M    at most M requests, each after the answer to the one before
// The manners of a server are some of
//   g   speaks first                     n   answers each line
//   b   answers bytes, some of them      s   answers by two calls
//   q   ends the connection after two lines; with x by a reset
//   z   has a last word when the other side says no more
// and those of a client
//   g   lets the other side speak first  s   asks by two calls
//   t   asks on two connections in turn  f   says that there is no more, and hears the other side out
//   x   ends with status 1 for half of all the things that it can have heard
#include "net.h"
#include <poll.h>

enum { MAX = 1000, END = 256 };

struct connection {
    unsigned heard;
    int lines;
};

static const char *manners;
static unsigned seed;

static int has(char manner) { return strchr(manners, manner) != NULL; }

static unsigned fold(unsigned heard, unsigned byte) { return (heard * 31 + byte) % 99991; }

// The other side may have gone, or go at any time.
static void say(int fd, const char *text, int length) {
    int first = has('s') && length > 1 ? 1 : 0;
    if (first)
        (void)!send(fd, text, first, MSG_NOSIGNAL);
    (void)!send(fd, text + first, length - first, MSG_NOSIGNAL);
}

// A line of one to three letters that depends on all that was heard.
static void say_line(int fd, unsigned heard) {
    char line[4];
    int length = 1 + heard % 3;
    for (int i = 0; i < length; i++)
        line[i] = 'a' + (heard >> i) % 5;
    line[length] = '\n';
    say(fd, line, length + 1);
}

// True if the connection is to end.
static int told(int fd, struct connection *c, unsigned char byte) {
    c->heard = fold(c->heard, byte);
    if (has('b') && c->heard % 3 == 0)
        say(fd, "+", 1);
    if (byte != '\n')
        return 0;
    c->lines++;
    int ends = has('q') && c->lines == 2;
    if (has('n') && !(ends && has('x')))
        say_line(fd, c->heard);
    return ends;
}

static void end(int fd) {
    struct linger reset = {1, 0};
    if (has('x'))
        CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    close(fd);
}

// True if the connection has ended.
static int received(int fd, struct connection *c) {
    unsigned char bytes[200];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got <= 0) {
        if (has('z'))
            say_line(fd, c->heard);
        close(fd);
        return 1;
    }
    for (ssize_t i = 0; i < got; i++)
        if (told(fd, c, bytes[i])) {
            end(fd);
            return 1;
        }
    return 0;
}

static int serve(const char *place) {
    static struct pollfd fds[MAX];
    static struct connection connections[MAX];
    int count = 1;
    fds[0] = (struct pollfd){listen_at_place(place), POLLIN, 0};
    for (;;) {
        CHECK(poll(fds, count, -1) > 0);
        for (int i = count - 1; i > 0; i--)
            if (fds[i].revents && received(fds[i].fd, &connections[i])) {
                count--;
                fds[i] = fds[count];
                connections[i] = connections[count];
            }
        if (fds[0].revents && count < MAX) {
            int fd = accept(fds[0].fd, NULL, NULL);
            CHECK(fd >= 0);
            fds[count] = (struct pollfd){fd, POLLIN, 0};
            connections[count++] = (struct connection){seed, 0};
            if (has('g'))
                say_line(fd, seed);
        }
    }
}

// Reads to the end of a line; false if there is none.
static int hear_line(int fd, unsigned *heard) {
    unsigned char byte = 0;
    while (byte != '\n') {
        if (read(fd, &byte, 1) != 1) {
            *heard = fold(*heard, END);
            return 0;
        }
        *heard = fold(*heard, byte);
    }
    return 1;
}

static int ask(const char *place, int most) {
    unsigned heard = seed;
    int turns = has('t') ? 2 : 1, fds[2];
    for (int i = 0; i < turns; i++)
        fds[i] = connect_to_place(place);
    int goes_on = 1;
    for (int i = 0; has('g') && goes_on && i < turns; i++)
        goes_on = hear_line(fds[i], &heard);
    for (int i = 0; goes_on && i < most; i++) {
        say_line(fds[i % turns], heard);
        goes_on = hear_line(fds[i % turns], &heard);
    }
    for (int i = 0; has('f') && i < turns; i++) {
        shutdown(fds[i], SHUT_WR);
        while (hear_line(fds[i], &heard))
            ;
    }
    return has('x') && heard % 2;
}

int main(int argc, char **argv) {
    CHECK(argc >= 5);
    manners = argv[3];
    seed = atoi(argv[4]);
    if (strcmp(argv[2], "server") == 0)
        return serve(argv[1]);
    CHECK(argc == 6);
    return ask(argv[1], atoi(argv[5]));
}
