// __thread variables are per thread, initialised for each, with their own addresses.
#include "guest.h"

static __thread int number = 40;
static __thread char text[32] = "fresh";
static pthread_barrier_t both;

static void *body(void *argument) {
    CHECK(number == 40 && strcmp(text, "fresh") == 0);
    number += (int)(intptr_t)argument;
    snprintf(text, sizeof text, "thread %d", (int)(intptr_t)argument);
    pthread_barrier_wait(&both);
    CHECK(number == 40 + (int)(intptr_t)argument);
    return strdup(text);
}

int main(void) {
    OK(pthread_barrier_init(&both, NULL, 3));
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        threads[i] = start(body, (void *)(i + 1));
    for (int i = 0; i < 3; i++) {
        char *said = join(threads[i]);
        puts(said);
        free(said);
    }
    printf("main still has %d, %s\n", number, text);
}
