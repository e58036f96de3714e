// localhost is found without asking anybody.
#include "net.h"
#include <netdb.h>

int main(void) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo("localhost", "80", &hints, &found) == 0);
    for (struct addrinfo *at = found; at; at = at->ai_next) {
        char text[64];
        CHECK(getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0);
        puts(text);
    }
    freeaddrinfo(found);
    hints.ai_flags = AI_NUMERICHOST;
    CHECK(getaddrinfo("::1", NULL, &(struct addrinfo){.ai_flags = AI_NUMERICHOST}, &found) == 0);
    CHECK(found->ai_family == AF_INET6);
    freeaddrinfo(found);
    return 0;
}
