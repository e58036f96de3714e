// Two threads wait for clients, each in an epoll set of its own, of which one at least is woken for each client. Which thread has accepted how many is printed.
// Called as exclusive PORT CLIENTS
#include "net.h"
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int listener, over, clients, accepted[2];
static atomic_int all;

static void *wait_for_clients(void *argument) {
    int self = (int)(intptr_t)argument, set = epoll_create1(0);
    struct epoll_event client = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listener}, found;
    struct epoll_event end = {.events = EPOLLIN, .data.fd = over};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, listener, &client) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, over, &end) == 0);
    for (;;) {
        CHECK(epoll_wait(set, &found, 1, -1) == 1);
        if (found.data.fd == over)
            return NULL;
        if (accept(listener, NULL, NULL) < 0)
            continue;
        accepted[self]++;
        if (atomic_fetch_add(&all, 1) + 1 == clients)
            CHECK(eventfd_write(over, 1) == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    listener = listen_at(atoi(argv[1]));
    clients = atoi(argv[2]);
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK((over = eventfd(0, 0)) >= 0);
    pthread_t one = start(wait_for_clients, (void *)0), two = start(wait_for_clients, (void *)1);
    join(one);
    join(two);
    printf("%d %d\n", accepted[0], accepted[1]);
    return 0;
}
