// Two threads that each ask two servers, and keep the connection to the first while they ask the second.
// Called as two_servers PORT PORT buggy|fixed
// With servers that serve one connection at a time a connection is like a lock: buggy takes them in both orders.
#include "net.h"

static int ports[2];

static void ask(int fd) {
    char byte;
    CHECK(write(fd, "?", 1) == 1);
    CHECK(read(fd, &byte, 1) == 1);
}

static void *both(void *order) {
    int first = *(int *)order;
    int one = connect_to(ports[first]);
    ask(one);
    int two = connect_to(ports[1 - first]);
    ask(two);
    close(two);
    close(one);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    pthread_t threads[2];
    ports[0] = atoi(argv[1]);
    ports[1] = atoi(argv[2]);
    int orders[2] = {0, !strcmp(argv[3], "buggy")};
    for (int i = 0; i < 2; i++)
        OK(pthread_create(&threads[i], NULL, both, &orders[i]));
    for (int i = 0; i < 2; i++)
        OK(pthread_join(threads[i], NULL));
    puts("done");
    return 0;
}
