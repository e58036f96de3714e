// A sendfile on a socket that waits goes on until all is sent; on one that does not wait until it is full.
#include "guest.h"
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { ALL = 600000 };
static int pair[2];

static void *drain(void *unused) {
    static char buffer[100000];
    long total = 0;
    for (ssize_t n; (n = read(pair[1], buffer, sizeof buffer)) > 0;)
        total += n;
    (void)unused;
    return (void *)total;
}

int main(void) {
    int file = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(ftruncate(file, ALL) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pthread_t reader = start(drain, NULL);
    CHECK(sendfile(pair[0], file, NULL, ALL + 1000) == ALL && lseek(file, 0, SEEK_CUR) == ALL);
    off_t at = 5;
    CHECK(sendfile(pair[0], file, &at, 300000) == 300000 && at == 300005);
    CHECK(close(pair[0]) == 0 && (long)join(reader) == ALL + 300000);
    int other[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other) == 0);
    at = 0;
    ssize_t sent = sendfile(other[0], file, &at, ALL);
    CHECK(sent > 65536 && sent < ALL && at == sent);
    FAILS(sendfile(other[0], file, &at, ALL), EAGAIN);
    puts("as the kernel");
    return 0;
}
