// Forwards each client's message to all clients, the sender too. "full": the message carries the client's number; "abstract": all
// messages are the same string. "race": workers are started before the list of clients is complete, and a client that is not in it
// yet misses messages: it then waits for ever.
// Called as chat_server PLACE N full|abstract|race
#include "net.h"

static int clients[8], count;
static atomic_int known;
static const char *kind;

static void *serve(void *argument) {
    int me = (int)(long)argument;
    char line[64] = "", message[80];
    if (read(clients[me], line, sizeof line - 1) <= 0)
        return NULL;
    snprintf(message, sizeof message, "%s", strcmp(kind, "abstract") == 0 ? "message\n" : line);
    int receivers = strcmp(kind, "race") == 0 ? atomic_load(&known) : count;
    for (int i = 0; i < receivers; i++)
        send_text(clients[i], message);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int listener = listen_at_place(argv[1]);
    count = atoi(argv[2]);
    kind = argv[3];
    pthread_t threads[8];
    int early = strcmp(kind, "race") == 0;
    for (int i = 0; i < count; i++) {
        clients[i] = accept(listener, NULL, NULL);
        CHECK(clients[i] >= 0);
        atomic_fetch_add(&known, 1);
        if (early)
            threads[i] = start(serve, (void *)(long)i);
    }
    for (int i = 0; i < count && !early; i++)
        threads[i] = start(serve, (void *)(long)i);
    for (int i = 0; i < count; i++)
        OK(pthread_join(threads[i], NULL));
    for (int i = 0; i < count; i++)
        close(clients[i]);
    return 0;
}
