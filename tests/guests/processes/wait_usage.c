// What a child used is told with its end, and added to what all children used.
#include "processes.h"
#include <sys/resource.h>
#include <sys/times.h>

int main(void) {
    struct rusage usage;
    memset(&usage, 0xff, sizeof usage);
    int status;
    pid_t pid = CHILD(_exit(3));
    CHECK(wait4(pid, &status, 0, &usage) == pid && WEXITSTATUS(status) == 3);
    CHECK(usage.ru_utime.tv_sec >= 0 && usage.ru_utime.tv_usec >= 0 && usage.ru_utime.tv_usec < 1000000);
    CHECK(usage.ru_stime.tv_sec >= 0 && usage.ru_stime.tv_sec < 10);
    CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_utime.tv_sec < 10);
    struct tms times_now;
    CHECK(times(&times_now) != -1 && times_now.tms_cutime >= 0);
    pid = CHILD(_exit(0));
    CHECK(wait3(&status, 0, &usage) == pid);
    puts("usage told");
}
