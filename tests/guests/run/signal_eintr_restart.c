// A handler interrupts a blocking read: EINTR without SA_RESTART, and with it the read goes on.
#include "guest.h"

static int ends[2];
static atomic_int handled, about_to_read, ended;

static void handler(int number) { handled = number; }

static void *reader(void *argument) {
    char byte;
    about_to_read = 1;
    ssize_t got = read(ends[0], &byte, 1);
    *(int *)argument = got == 1 ? byte : -errno;
    ended = 1;
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    int result;
    CHECK(pipe(ends) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t thread = start(reader, &result);
    while (!about_to_read)
        sched_yield();
    // The first may come just before the read.
    for (int i = 0; i < 3; i++) {
        handled = 0;
        OK(pthread_kill(thread, SIGUSR1));
        while (!handled)
            sleep_ms(1);
    }
    CHECK(handled == SIGUSR1 && !ended);
    write_all(ends[1], "r");
    join(thread);
    printf("SA_RESTART: read '%c'\n", result);
    action.sa_flags = 0;
    ended = 0;
    about_to_read = 0;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    thread = start(reader, &result);
    while (!about_to_read)
        sched_yield();
    // The first may come just before the read, so signal until the read has ended.
    while (!ended) {
        pthread_kill(thread, SIGUSR1);
        sleep_ms(1);
    }
    join(thread);
    printf("no SA_RESTART: %s\n", result == -EINTR ? "EINTR" : "wrong");
}
