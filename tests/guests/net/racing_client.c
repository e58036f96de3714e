// Two threads ask on one connection, so that what the server is asked depends on the schedule; before that, main has asked something that
// does not. Called as racing_client PLACE
#include "net.h"

static int fd;

static void *ask(void *text) {
    send_text(fd, text);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    char letters[4] = "";
    fd = connect_to_place(argv[1]);
    send_text(fd, "3\n");
    CHECK(read(fd, letters, 1) == 1);
    pthread_t one = start(ask, "1\n"), two = start(ask, "2\n");
    join(one);
    join(two);
    for (int i = 1; i < 3; i++)
        CHECK(read(fd, letters + i, 1) == 1);
    puts(letters);
    return 0;
}
