// Waits at a Unix socket that takes datagrams or packets, as no process outside can send here.
// Called as mailbox PATH datagrams|packets
#include "net.h"

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int packets = !strcmp(argv[2], "packets");
    struct place place = place_of(argv[1]);
    int fd = socket(AF_UNIX, packets ? SOCK_SEQPACKET : SOCK_DGRAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&place.address, place.length) == 0);
    if (packets) {
        CHECK(listen(fd, 1) == 0);
        CHECK((fd = accept(fd, NULL, NULL)) >= 0);
    }
    char letter[8];
    printf("%zd\n", read(fd, letter, sizeof letter));
    return 0;
}
