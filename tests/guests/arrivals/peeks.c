// Two questions are asked at once; how much of the answers is there is looked at without waiting, and without taking it: by MSG_PEEK, or by FIONREAD once something is there.
// Called as peeks PORT peek|count
#include "net.h"
#include <poll.h>
#include <sys/ioctl.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    char bytes[64];
    int fd = connect_to(atoi(argv[1])), count = 0;
    struct pollfd asked = {fd, POLLIN, 0};
    write_all(fd, "a\n");
    write_all(fd, "b\n");
    if (!strcmp(argv[2], "peek")) {
        count = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    } else {
        CHECK(poll(&asked, 1, -1) == 1);
        CHECK(ioctl(fd, FIONREAD, &count) == 0);
    }
    CHECK(recv(fd, bytes, 8, MSG_WAITALL) == 8);
    printf("%d\n", count);
    return 0;
}
