// So many processes or threads, each of which sends a byte to itself again and again.
#include "processes.h"

static void *busy(void *unused) {
    (void)unused;
    turn own = make_turn();
    for (;;) {
        give(&own);
        await(&own);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int is_processes = strcmp(argv[1], "processes") == 0;
    for (int i = 1; i < atoi(argv[2]); i++) {
        if (!is_processes)
            start(busy, NULL);
        else if (fork_checked() == 0)
            break;
    }
    busy(NULL);
}
