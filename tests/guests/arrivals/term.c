// A server that ends when a signal breaks into its `accept`, and only then. A signal that comes before the call is lost.
// Called as term PORT
#include "net.h"
#include <signal.h>

static void handler(int signal) {
    (void)signal;
    (void)!write(1, "!", 1);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGTERM, &action, NULL);
    int listening = listen_at(atoi(argv[1]));
    for (;;) {
        char letter;
        int fd = accept(listening, NULL, NULL);
        if (fd < 0)
            break;
        if (read(fd, &letter, 1) == 1)
            (void)!write(1, &letter, 1);
        close(fd);
    }
    (void)!write(1, "bye", 3);
    return 0;
}
