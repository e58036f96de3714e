// Main accepts n clients, one worker thread each, which answers m numbers with letters.
// Called as alphabet_server PLACE N M
#include "net.h"

static int messages;

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    for (int i = 0; i < messages; i++) {
        char line[16];
        ssize_t got = read(fd, line, sizeof line - 1);
        CHECK(got > 0);
        line[got] = 0;
        char letter = 'A' + atoi(line) - 1;
        CHECK(write(fd, &letter, 1) == 1);
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int listener = listen_at_place(argv[1]), n = atoi(argv[2]);
    messages = atoi(argv[3]);
    serve_in_threads(listener, n, serve);
    return 0;
}
