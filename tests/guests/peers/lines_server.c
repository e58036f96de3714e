// A server peer, one process, one thread: serves any number of connections with poll.
// Called as lines_server PLACE daytime|alphabet|file|log FILE
//   daytime   sends a line to whoever connects, and ends the connection
//   alphabet  answers each line with a number by the letter of that number
//   file      answers "GET whole" or "GET from-to" with bytes of a file of twelve letters, and ends the connection
// or, to see what becomes of it, as a server that is no good:
//   counts    answers each line by how many connections there have been, so that no two are alike
//   once      like alphabet, but takes no second connection
//   dies      says so and ends with status 3
//   hangs     computes for ever
//   floods    answers without end
//   drips     answers without end, a byte now and then
//   holds     answers "ask" only when another connection says "go", and nobody may look into its process
// With a file name after the kind, all that is received is written there, one line per event.
#include "net.h"
#include <poll.h>
#include <sys/prctl.h>

enum { MAX = 1000 };
static struct pollfd fds[MAX];
static char pending[MAX][256];
static int number[MAX], count, opened;
static const char *kind;
static FILE *journal;

static void forget(int i) {
    close(fds[i].fd);
    count--;
    fds[i] = fds[count];
    memcpy(pending[i], pending[count], sizeof pending[i]);
    number[i] = number[count];
}

static void note(int i, const char *what) {
    if (journal) {
        fprintf(journal, "%d %s\n", number[i], what);
        fflush(journal);
    }
}

// The answer to a line that waits for another connection's is held back until then.
static void hold(int fd, const char *line) {
    static int asked = -1, may_go;
    if (strcmp(line, "ask") == 0)
        asked = fd;
    else
        may_go = 1;
    if (asked >= 0 && may_go) {
        send_text(asked, "at last\n");
        asked = -1;
    }
    if (strcmp(line, "go") == 0)
        send_text(fd, "gone\n");
}

// One whole line has come; true if the connection is to end.
static int answer(int fd, const char *line) {
    if (strcmp(kind, "alphabet") == 0 || strcmp(kind, "once") == 0) {
        char letter = 'A' + atoi(line) - 1;
        CHECK(write(fd, &letter, 1) == 1);
        return 0;
    }
    if (strcmp(kind, "counts") == 0) {
        char letter = 'A' + opened - 1;
        CHECK(write(fd, &letter, 1) == 1);
        return 0;
    }
    if (strcmp(kind, "holds") == 0) {
        hold(fd, line);
        return 0;
    }
    if (strcmp(kind, "dies") == 0) {
        write_all(1, "cannot go on\n");
        _exit(3);
    }
    volatile int forever = strcmp(kind, "hangs") == 0;
    while (forever)
        ;
    while (strcmp(kind, "floods") == 0)
        send_text(fd, "more and more and more and more\n");
    while (strcmp(kind, "drips") == 0 && send(fd, ".", 1, MSG_NOSIGNAL) == 1)
        usleep(20000);
    const char *file = "abcdefghijkl";
    int from = 0, to = 11;
    sscanf(line, "GET %d-%d", &from, &to);
    CHECK(write(fd, file + from, to - from + 1) == to - from + 1);
    return 1;
}

static void received(int i) {
    char buffer[200];
    ssize_t got = read(fds[i].fd, buffer, sizeof buffer);
    if (got <= 0) {
        note(i, "end");
        forget(i);
        return;
    }
    for (ssize_t k = 0; k < got; k++) {
        char *line = pending[i];
        size_t length = strlen(line);
        if (buffer[k] != '\n' && length < sizeof pending[i] - 1) {
            line[length] = buffer[k];
            line[length + 1] = 0;
            continue;
        }
        note(i, line);
        int ends = answer(fds[i].fd, line);
        line[0] = 0;
        if (ends) {
            forget(i);
            return;
        }
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    kind = argv[2];
    if (strcmp(kind, "holds") == 0)
        CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    if (argc > 3)
        CHECK((journal = fopen(argv[3], "w")) != NULL);
    fds[0] = (struct pollfd){listen_at_place(argv[1]), POLLIN, 0};
    count = 1;
    for (;;) {
        CHECK(poll(fds, count, -1) > 0);
        for (int i = count - 1; i > 0; i--)
            if (fds[i].revents)
                received(i);
        if (fds[0].revents && count < MAX) {
            int fd = accept(fds[0].fd, NULL, NULL);
            CHECK(fd >= 0);
            if (strcmp(kind, "once") == 0) {
                close(fds[0].fd);
                fds[0].fd = -1;
            }
            if (strcmp(kind, "daytime") == 0) {
                send_text(fd, "Thu Jan  1 00:00:00 1970\n");
                close(fd);
                continue;
            }
            fds[count] = (struct pollfd){fd, POLLIN, 0};
            pending[count][0] = 0;
            number[count++] = opened++;
            note(count - 1, "connected");
        }
    }
}
