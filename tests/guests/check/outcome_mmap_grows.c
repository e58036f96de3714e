// Two threads make a file longer that is mapped for reading only: each sees what it wrote, in the mapping too, and the last one stays.
// Going back to an earlier state takes memory away again that was mapped for the longer file.
// outcomes: "ab b\n" "ab a\n"
#include "guest.h"

static int fd;
static char *view;

static void *body(void *text) {
    CHECK(pwrite(fd, text, 1, 4096) == 1);
    // Nobody else moves before the next call.
    return view[4096] == *(char *)text ? text : NULL;
}

int main(void) {
    fd = open("file", O_RDWR | O_CREAT, 0644);
    view = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(view != MAP_FAILED);
    pthread_t first = start(body, "a"), second = start(body, "b");
    char *a = join(first), *b = join(second);
    printf("%s%s %c\n", a, b, view[4096]);
}
