// A server that wants another process for its client: a copy of itself, or another program, which a thread starts.
// Called as second_process PLACE fork|popen
#include "net.h"

static int client;

static void *serve(void *unused) {
    FILE *other = popen("echo from another program", "r");
    CHECK(other != NULL);
    char line[64] = "";
    CHECK(fgets(line, sizeof line, other) != NULL);
    CHECK(pclose(other) == 0);
    send_text(client, line);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int listener = listen_at_place(argv[1]);
    client = accept(listener, NULL, NULL);
    CHECK(client >= 0);
    if (strcmp(argv[2], "popen") == 0) {
        join(start(serve, NULL));
        return 0;
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        send_text(client, "from the child\n");
        _exit(0);
    }
    close(client);
    CHECK(waitpid(child, NULL, 0) == child);
    return 0;
}
