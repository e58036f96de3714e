// Two threads, each with a connection of its own, say a line and wait for the answer, LIMIT milliseconds or for ever.
// Called as waits_for_answers PORT [LIMIT]
#include "net.h"
#include <poll.h>

static int port, limit = -1;
static char answers[2][80];

static void *ask(void *argument) {
    char *answer = argument, line[2] = {'a' + (answer == answers[1]), 0};
    int fd = connect_to(port);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    send_text(fd, line);
    send_text(fd, "\n");
    int count = limit < 0 ? 1 : poll(&ready, 1, limit);
    CHECK(count >= 0);
    if (count == 0)
        strcpy(answer, "nothing");
    else
        CHECK(read_line(fd, answer, sizeof answers[0]) >= 0);
    CHECK(close(fd) == 0);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    CHECK(argc >= 2);
    port = atoi(argv[1]);
    if (argc > 2)
        limit = atoi(argv[2]);
    for (int i = 0; i < 2; i++)
        OK(pthread_create(&threads[i], NULL, ask, answers[i]));
    for (int i = 0; i < 2; i++)
        OK(pthread_join(threads[i], NULL));
    printf("%s, %s\n", answers[0], answers[1]);
    return 0;
}
