// A peer that says what it is told to say.
// Called as sayer PORT client TEXT [AGAIN]   connects, says TEXT, says AGAIN when it has heard something, and hears the other side out
//        or sayer PORT server TEXT           answers each line, on any number of connections, with TEXT and the line
#include "net.h"
#include <poll.h>

enum { MOST = 512 };

static void say(int fd, const char *text) { (void)!send(fd, text, strlen(text), MSG_NOSIGNAL); }

static int client(int port, const char *text, const char *again) {
    char heard[256];
    int fd = connect_to(port);
    say(fd, text);
    while (read(fd, heard, sizeof heard) > 0) {
        if (again)
            say(fd, again);
        again = NULL;
    }
    return 0;
}

static int server(int port, const char *text) {
    struct pollfd fds[MOST] = {{.fd = listen_at(port), .events = POLLIN}};
    static char line[MOST][256];
    for (int count = 1;;) {
        CHECK(poll(fds, count, -1) > 0);
        if (fds[0].revents) {
            int place = 1;
            while (place < count && fds[place].fd >= 0)
                place++;
            CHECK(place < MOST);
            count = place == count ? count + 1 : count;
            fds[place] = (struct pollfd){.fd = accept(fds[0].fd, NULL, NULL), .events = POLLIN};
            line[place][0] = 0;
        }
        for (int i = 1; i < count; i++) {
            char byte, answer[300];
            if (!fds[i].revents)
                continue;
            if (read(fds[i].fd, &byte, 1) <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                continue;
            }
            strncat(line[i], &byte, 1);
            if (byte != '\n')
                continue;
            snprintf(answer, sizeof answer, "%s%s", text, line[i]);
            say(fds[i].fd, answer);
            line[i][0] = 0;
        }
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    int port = atoi(argv[1]);
    if (!strcmp(argv[2], "server"))
        return server(port, argv[3]);
    return client(port, argv[3], argc > 4 ? argv[4] : NULL);
}
