// Per connection a producer and a consumer: the producer sends numbers, each followed by a newline in a write of its own; the
// consumer reads the letters. Main opens the connections.
// Called as alphabet_client PLACE N M
#include "net.h"

static int messages;

struct connection {
    int fd;
    char letters[32];
};

static void *produce(void *argument) {
    struct connection *connection = argument;
    for (int i = 0; i < messages; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i + 1);
        send_text(connection->fd, number);
        send_text(connection->fd, "\n");
    }
    return NULL;
}

static void *consume(void *argument) {
    struct connection *connection = argument;
    for (int i = 0; i < messages; i++)
        CHECK(read(connection->fd, &connection->letters[i], 1) == 1);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int n = atoi(argv[2]);
    messages = atoi(argv[3]);
    struct connection connections[8] = {0};
    pthread_t threads[16];
    for (int i = 0; i < n; i++)
        connections[i].fd = connect_to_place(argv[1]);
    for (int i = 0; i < n; i++) {
        threads[2 * i] = start(produce, &connections[i]);
        threads[2 * i + 1] = start(consume, &connections[i]);
    }
    for (int i = 0; i < 2 * n; i++)
        OK(pthread_join(threads[i], NULL));
    for (int i = 0; i < n; i++) {
        close(connections[i].fd);
        for (int k = 0; k < messages; k++)
            CHECK(connections[i].letters[k] == 'A' + k);
    }
    puts("all letters came");
    return 0;
}
