// User, group, session, uname, hostname, sysconf, priority: answers that fit together.
#include "guest.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

int main(void) {
    uid_t real, effective, saved;
    struct utsname name;
    char host[256];
    CHECK(getresuid(&real, &effective, &saved) == 0 && real == getuid() && effective == geteuid());
    CHECK(getgid() == getegid() && getgroups(0, NULL) >= 0);
    CHECK(uname(&name) == 0 && strcmp(name.sysname, "Linux") == 0 && strcmp(name.machine, "x86_64") == 0);
    CHECK(gethostname(host, sizeof host) == 0 && strcmp(host, name.nodename) == 0);
    CHECK(sysconf(_SC_PAGESIZE) == 4096 && sysconf(_SC_OPEN_MAX) > 0 && sysconf(_SC_CLK_TCK) == 100);
    CHECK(sysconf(_SC_PHYS_PAGES) > 0 && get_nprocs() >= 1);
    errno = 0;
    int nice_value = getpriority(PRIO_PROCESS, 0);
    CHECK(errno == 0 && nice_value >= -20 && nice_value < 20);
    CHECK(sched_getscheduler(0) >= 0 && sched_get_priority_max(SCHED_FIFO) == 99);
    struct sysinfo info;
    CHECK(sysinfo(&info) == 0 && info.totalram > 0);
    printf("%s %s\n", name.sysname, name.machine);
}
