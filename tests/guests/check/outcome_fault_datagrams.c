// Datagrams may get lost, arrive twice, and overtake each other: one of two, by the budget.
// options: --faults loss,duplicate,reorder
// outcomes: "12" "1" "2" "112" "122" "21"
#include <arpa/inet.h>
#include <assert.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    assert(bind(receiver, (struct sockaddr *)&at, sizeof at) == 0);
    assert(getsockname(receiver, (struct sockaddr *)&at, &size) == 0);
    assert(sendto(sender, "1", 1, 0, (struct sockaddr *)&at, sizeof at) == 1);
    assert(sendto(sender, "2", 1, 0, (struct sockaddr *)&at, sizeof at) == 1);
    char byte;
    while (recv(receiver, &byte, 1, MSG_DONTWAIT) == 1)
        (void)!write(1, &byte, 1);
    return 0;
}
