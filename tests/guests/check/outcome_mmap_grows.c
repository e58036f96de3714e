// Two threads make a file longer that is mapped for reading only: each sees what it wrote, in the mapping too, and the last one stays.
// Going back to an earlier state takes memory away again that was mapped for the longer file.
// outcomes: "ab b\n" "ab a\n"
#include "guest.h"
#include <stdbool.h>

static int fd;
static char *view;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *body(void *text) {
    pthread_mutex_lock(&mutex);
    CHECK(pwrite(fd, text, 1, 4096) == 1);
    bool is_seen = view[4096] == *(char *)text;
    pthread_mutex_unlock(&mutex);
    return is_seen ? text : NULL;
}

int main(void) {
    fd = open("file", O_RDWR | O_CREAT, 0644);
    view = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(view != MAP_FAILED);
    pthread_t first = start(body, "a"), second = start(body, "b");
    char *a = join(first), *b = join(second);
    printf("%s%s %c\n", a, b, view[4096]);
}
