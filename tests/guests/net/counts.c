// Two threads, each on a connection of its own, ask a server for a number; then each tells it something that depends on which of them is first. So what
// the server answers on one connection depends on what it was asked on the other, and what it is told on each depends on the schedule.
// Called as counts PLACE ASK TELL, where TELL has a %d for who is first.
#include "net.h"

static const char *question, *news;
static char answers[2][64];
static int fds[2], told;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *ask(void *argument) {
    long i = (long)argument;
    char line[64];
    snprintf(line, sizeof line, "%s\r\n", question);
    send_text(fds[i], line);
    CHECK(read_line(fds[i], answers[i], sizeof answers[i]) >= 0);
    pthread_mutex_lock(&lock);
    int mine = ++told;
    pthread_mutex_unlock(&lock);
    int length = snprintf(line, sizeof line, news, mine);
    strcpy(line + length, "\r\n");
    send_text(fds[i], line);
    CHECK(read_line(fds[i], line, sizeof line) >= 0);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    question = argv[2];
    news = argv[3];
    for (int i = 0; i < 2; i++)
        fds[i] = connect_to_place(argv[1]);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        threads[i] = start(ask, (void *)i);
    for (int i = 0; i < 2; i++)
        join(threads[i]);
    printf("%s %s\n", answers[0], answers[1]);
    return 0;
}
