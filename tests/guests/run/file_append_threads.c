// Lines appended by several threads are never torn; every line is there.
// unordered
#include "guest.h"

static int fd;

static void *body(void *argument) {
    for (int i = 0; i < 5; i++) {
        char line[32];
        snprintf(line, sizeof line, "thread %d line %d\n", (int)(intptr_t)argument, i);
        write_all(fd, line);
    }
    return NULL;
}

int main(void) {
    CHECK((fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND, 0600)) >= 0 || errno == EOPNOTSUPP);
    if (fd < 0)
        CHECK((fd = open("scratch", O_RDWR | O_CREAT | O_APPEND, 0600)) >= 0 && unlink("scratch") == 0);
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        threads[i] = start(body, (void *)i);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    char text[1024] = {0};
    CHECK(pread(fd, text, sizeof text, 0) == 15 * (ssize_t)strlen("thread 0 line 0\n"));
    fputs(text, stdout);
}
