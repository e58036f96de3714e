// Close-on-exec, in a child that runs another program: those descriptors are gone, the others are there.
#include "processes.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 1; i < argc; i++)
            printf("%d", fcntl(atoi(argv[i]), F_GETFD) != -1);
        puts("");
        return 0;
    }
    int plain[2], closed[2], pair[2], moved;
    CHECK(pipe(plain) == 0 && pipe2(closed, O_CLOEXEC) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK((moved = fcntl(closed[0], F_DUPFD, 60)) == 60);
    CHECK(dup3(plain[0], 61, O_CLOEXEC) == 61);
    CHECK(fcntl(plain[1], F_SETFD, FD_CLOEXEC) == 0);
    int event = eventfd(0, EFD_CLOEXEC), epoll = epoll_create1(0);
    int numbers[] = {plain[0], plain[1], closed[0], closed[1], pair[0], pair[1], moved, 61, event, epoll};
    char words[10][16], *arguments[12] = {argv[0]};
    for (int i = 0; i < 10; i++) {
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
        arguments[i + 1] = words[i];
    }
    FINE(CHILD(execv("/proc/self/exe", arguments)));
    // Here nothing has changed.
    for (int i = 0; i < 10; i++)
        CHECK(fcntl(numbers[i], F_GETFD) != -1);
}
