// A small chat server: whatever a client says goes to everyone who is here. A thread per client, one lock.
//
// Every access to `clients` is under the lock, so there is no data race to be found. There is a race all the same: a client may leave
// between the question whether it is here and the message to it. Built with -DFIXED, the question is asked under the same lock.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEATS 2

struct client {
    int socket;
};

static struct client *clients[SEATS]; // NULL: nobody in this seat
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_here(int seat) {
    pthread_mutex_lock(&lock);
    int here = clients[seat] != NULL;
    pthread_mutex_unlock(&lock);
    return here;
}

static void tell(int seat, const char *line) {
    pthread_mutex_lock(&lock);
#ifdef FIXED
    if (clients[seat] != NULL)
#endif
        send(clients[seat]->socket, line, strlen(line), MSG_NOSIGNAL);
    pthread_mutex_unlock(&lock);
}

static void leave(int seat) {
    pthread_mutex_lock(&lock);
    struct client *client = clients[seat];
    clients[seat] = NULL;
    pthread_mutex_unlock(&lock);
    close(client->socket);
    free(client);
}

static void *serve(void *argument) {
    int seat = (int)(long)argument, socket = clients[seat]->socket;
    char line[64];
    ssize_t length;
    while ((length = read(socket, line, sizeof line - 1)) > 0) {
        line[length] = '\0';
        for (int other = 0; other < SEATS; other++)
            if (is_here(other))
                tell(other, line);
    }
    leave(seat);
    return NULL;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons(argc > 1 ? atoi(argv[1]) : 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, SEATS) != 0) {
        perror("chat");
        return 1;
    }
    pthread_t threads[SEATS];
    for (int seat = 0; seat < SEATS; seat++) {
        struct client *client = malloc(sizeof *client);
        client->socket = accept(listener, NULL, NULL);
        pthread_mutex_lock(&lock);
        clients[seat] = client;
        pthread_mutex_unlock(&lock);
        pthread_create(&threads[seat], NULL, serve, (void *)(long)seat);
    }
    for (int seat = 0; seat < SEATS; seat++)
        pthread_join(threads[seat], NULL);
    puts("all clients have left");
    return 0;
}
