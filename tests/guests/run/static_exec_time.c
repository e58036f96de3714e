// The static glibc build: exec of itself, time, sleeping threads and files.
// build: -static
#include "guest.h"

static void *sleeper(void *argument) {
    sleep_ms((intptr_t)argument);
    return argument;
}

int main(int argc, char **argv) {
    if (argc == 1) {
        FILE *file = fopen("file", "w");
        CHECK(file && fputs("written before exec\n", file) >= 0 && fclose(file) == 0);
        execl("/proc/self/exe", argv[0], "again", NULL);
        CHECK(!"exec returned");
    }
    char line[64];
    FILE *file = fopen("file", "r");
    CHECK(file && fgets(line, sizeof line, file));
    fputs(line, stdout);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    pthread_t one = start(sleeper, (void *)2), two = start(sleeper, (void *)1);
    join(one);
    join(two);
    CHECK(now_ns(CLOCK_MONOTONIC) - before >= 2000000);
    puts("slept");
}
