// A Unix server and two client processes; the server knows who they are.
#include "processes.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), sum = 0;
    CHECK(listener >= 0 && bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
    pid_t clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = fork_checked();
        if (clients[i] == 0) {
            CHECK(close(listener) == 0);
            int s = socket(AF_UNIX, SOCK_STREAM, 0), value = 100 + i;
            CHECK(connect(s, (void *)&address, sizeof address) == 0);
            CHECK(write(s, &value, sizeof value) == sizeof value);
            CHECK(read(s, &value, sizeof value) == sizeof value && value == 200 + i);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        struct ucred who;
        socklen_t length = sizeof who;
        int s = accept(listener, NULL, NULL), value;
        CHECK(s >= 0 && read(s, &value, sizeof value) == sizeof value);
        CHECK(getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0);
        CHECK(who.pid == clients[value - 100] && who.uid == getuid());
        sum += value;
        value += 100;
        CHECK(write(s, &value, sizeof value) == sizeof value && close(s) == 0);
    }
    FINE(clients[0]);
    FINE(clients[1]);
    CHECK(unlink("socket") == 0);
    printf("%d\n", sum);
}
