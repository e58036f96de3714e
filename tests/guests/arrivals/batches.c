// Datagrams are received as many at a time as there are; each batch is a line.
// Called as batches PORT DATAGRAMS
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc > 2);
    struct sockaddr_in here = at_port(atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), left = atoi(argv[2]);
    CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
    while (left > 0) {
        char texts[8][16] = {{0}};
        struct iovec parts[8];
        struct mmsghdr messages[8];
        memset(messages, 0, sizeof messages);
        for (int i = 0; i < 8; i++) {
            parts[i] = (struct iovec){texts[i], 15};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        }
        int count = recvmmsg(fd, messages, 8, MSG_WAITFORONE, NULL);
        CHECK(count > 0);
        for (int i = 0; i < count; i++)
            printf("%s", texts[i]);
        puts("");
        left -= count;
    }
    return 0;
}
