// Two threads write to one pipe; main reads both bytes and prints them in the order they came.
// outcomes: "xy" "yx"
#include "guest.h"

static int ends[2];

static void *writer(void *argument) {
    write_all(ends[1], argument);
    return NULL;
}

int main(void) {
    char text[3] = {0};
    CHECK(pipe(ends) == 0);
    pthread_t one = start(writer, "x"), two = start(writer, "y");
    join(one);
    join(two);
    CHECK(read(ends[0], text, 2) == 2);
    write_all(1, text);
}
