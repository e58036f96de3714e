// Two workers share one datagram socket and answer each number by its letter; with "counter" by how many were answered so far, so that
// who is told what depends on the schedule. Ends after so many requests.
// Called as udp_server PORT REQUESTS [counter]
#include "net.h"

static int listener, counts;
static atomic_int left, answered;

static void *work(void *argument) {
    while (atomic_fetch_sub(&left, 1) > 0) {
        char number[16] = "", letter;
        struct sockaddr_in client;
        socklen_t length = sizeof client;
        CHECK(recvfrom(listener, number, sizeof number - 1, 0, (struct sockaddr *)&client, &length) > 0);
        letter = 'A' + (counts ? atomic_fetch_add(&answered, 1) : atoi(number) - 1);
        CHECK(sendto(listener, &letter, 1, 0, (struct sockaddr *)&client, length) == 1);
    }
    return argument;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    struct sockaddr_in here = at_port(atoi(argv[1]));
    listener = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(listener >= 0);
    CHECK(bind(listener, (struct sockaddr *)&here, sizeof here) == 0);
    left = atoi(argv[2]);
    counts = argc > 3;
    pthread_t one = start(work, NULL), two = start(work, NULL);
    join(one);
    join(two);
    return 0;
}
