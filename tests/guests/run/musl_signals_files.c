// The static musl build: signals to a thread, semaphores, pipes, files and the heap.
// build: musl
#include "guest.h"

static sem_t done;
static int ends[2];
static volatile sig_atomic_t handled;

static void handler(int number) { handled = number; }

static void *body(void *argument) {
    char *copy = strdup("through musl's pipe");
    CHECK(write(ends[1], copy, strlen(copy)) == (ssize_t)strlen(copy));
    free(copy);
    CHECK(raise(SIGUSR1) == 0 && handled == SIGUSR1);
    CHECK(sem_post(&done) == 0);
    return argument;
}

int main(void) {
    char text[32] = {0};
    CHECK(sem_init(&done, 0, 0) == 0 && pipe(ends) == 0 && signal(SIGUSR1, handler) != SIG_ERR);
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&done) == 0 && read(ends[0], text, sizeof text - 1) > 0);
    join(thread);
    FILE *file = fopen("file", "w+");
    CHECK(file && fprintf(file, "%s\n", text) > 0 && fclose(file) == 0);
    puts(text);
}
