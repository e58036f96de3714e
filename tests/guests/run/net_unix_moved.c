// A Unix socket is found by its file, whatever that is called by now.
#include "guest.h"
#include <sys/socket.h>
#include <sys/un.h>

static int use(int (*call)(int, const struct sockaddr *, socklen_t), int fd, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    return call(fd, (struct sockaddr *)&address, sizeof address) ? errno : 0;
}

static int fresh(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }

static int listener_at(const char *path) {
    int fd = fresh();
    CHECK(use(bind, fd, path) == 0 && listen(fd, 5) == 0);
    return fd;
}

// Who has answered: the listener that has a connection to accept.
static void reaches(int listener, const char *path) {
    int client = fresh();
    CHECK(use(connect, client, path) == 0);
    int server = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(server >= 0 && write(server, "x", 1) == 1);
    char byte;
    CHECK(read(client, &byte, 1) == 1 && byte == 'x');
    close(client), close(server);
}

int main(void) {
    int first = listener_at("new");
    CHECK(rename("new", "current") == 0);
    CHECK(use(connect, fresh(), "new") == ENOENT);
    reaches(first, "current");
    int second = listener_at("new");
    reaches(second, "new");
    reaches(first, "current");
    CHECK(rename("new", "current") == 0);
    reaches(second, "current");
    CHECK(symlink("current", "link") == 0 && link("current", "other") == 0);
    reaches(second, "link");
    reaches(second, "other");
    CHECK(use(bind, fresh(), "current") == EADDRINUSE);
    close(second);
    CHECK(use(connect, fresh(), "current") == ECONNREFUSED);
    CHECK(unlink("current") == 0);
    int third = listener_at("current");
    reaches(third, "current");
    struct sockaddr_un name;
    socklen_t size = sizeof name;
    CHECK(getsockname(third, (struct sockaddr *)&name, &size) == 0);
    printf("%s %u\n", name.sun_path, size);
    return unlink("current") || unlink("link") || unlink("other");
}
