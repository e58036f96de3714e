// Resource limits: RLIMIT_NOFILE is enforced with EMFILE; limits can be read, lowered and read again.
#include "guest.h"
#include <sys/resource.h>

int main(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 64);
    limit.rlim_cur = 32;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 32);
    int opened = 0, fd, last = -1;
    while ((fd = open("/dev/null", O_RDWR)) >= 0)
        opened++, last = fd;
    CHECK(errno == EMFILE && opened > 0);
    FAILS(dup(0), EMFILE);
    int ends[2];
    FAILS(pipe(ends), EMFILE);
    printf("last descriptor %d\n", last);
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && getrlimit(RLIMIT_AS, &limit) == 0);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0);
}
