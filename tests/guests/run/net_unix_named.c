// Unix sockets with names: a path, which is a file, and an abstract name.
#include "guest.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static void exchange(const struct sockaddr_un *address, socklen_t length) {
    char buffer[8];
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (const struct sockaddr *)address, length) == 0);
    FAILS(connect(fd, (const struct sockaddr *)address, length), ECONNREFUSED);
    CHECK(listen(listener, 4) == 0);
    CHECK(connect(fd, (const struct sockaddr *)address, length) == 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0);
    CHECK(write(fd, "ping", 4) == 4 && read(accepted, buffer, 8) == 4);
    CHECK(write(accepted, "pong", 4) == 4 && read(fd, buffer, 8) == 4);
    struct sockaddr_un peer;
    socklen_t size = sizeof peer;
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &size) == 0);
    printf("peer name of %u bytes\n", (unsigned)size);
    struct ucred who;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &(socklen_t){sizeof who}) == 0);
    CHECK(who.pid == getpid());
    close(accepted);
    CHECK(read(fd, buffer, 8) == 0);
    close(fd);
    close(listener);
}

int main(void) {
    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "/tmp/tracefork-guest-socket"};
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0tracefork-guest"};
    snprintf(path.sun_path, sizeof path.sun_path, "guest-socket");
    exchange(&path, sizeof path);
    struct stat status;
    CHECK(lstat(path.sun_path, &status) == 0 && S_ISSOCK(status.st_mode));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(bind(fd, (struct sockaddr *)&path, sizeof path), EADDRINUSE);
    FAILS(connect(fd, (struct sockaddr *)&path, sizeof path), ECONNREFUSED);
    CHECK(unlink(path.sun_path) == 0);
    FAILS(connect(fd, (struct sockaddr *)&path, sizeof path), ENOENT);
    exchange(&name, offsetof(struct sockaddr_un, sun_path) + 16);
    puts("done");
    return 0;
}
