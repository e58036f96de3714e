// Asks one question on each of N connections and prints the answers as they come.
// Called as polls PORT N [select]
#include "net.h"
#include <poll.h>
#include <sys/select.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int port = atoi(argv[1]), count = atoi(argv[2]), selects = argc > 3;
    struct pollfd fds[8];
    for (int i = 0; i < count; i++) {
        char question[3] = {'a' + i, '\n', 0};
        fds[i] = (struct pollfd){.fd = connect_to(port), .events = POLLIN};
        CHECK(write(fds[i].fd, question, 2) == 2);
    }
    for (int answers = 0; answers < count;) {
        if (selects) {
            fd_set set;
            FD_ZERO(&set);
            int highest = 0;
            for (int i = 0; i < count; i++)
                if (fds[i].fd >= 0) {
                    FD_SET(fds[i].fd, &set);
                    highest = fds[i].fd;
                }
            CHECK(select(highest + 1, &set, NULL, NULL, NULL) > 0);
            for (int i = 0; i < count; i++)
                fds[i].revents = fds[i].fd >= 0 && FD_ISSET(fds[i].fd, &set) ? POLLIN : 0;
        } else {
            CHECK(poll(fds, count, -1) > 0);
        }
        for (int i = 0; i < count; i++) {
            char answer[64];
            if (!fds[i].revents)
                continue;
            ssize_t length = read(fds[i].fd, answer, sizeof answer);
            CHECK(length > 0);
            printf("%.*s", (int)length, answer);
            fds[i].fd = -1;
            answers++;
        }
    }
    return 0;
}
