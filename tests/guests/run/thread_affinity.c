// Affinity can be asked and set; sched_getcpu names a CPU of the set; at least one processor is reported.
#include "guest.h"

int main(void) {
    cpu_set_t set, again;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1);
    OK(pthread_setaffinity_np(pthread_self(), sizeof set, &set));
    OK(pthread_getaffinity_np(pthread_self(), sizeof again, &again));
    CHECK(CPU_EQUAL(&set, &again));
    CHECK(sched_getcpu() >= 0);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1 && sysconf(_SC_NPROCESSORS_CONF) >= 1);
    puts("affinity kept");
}
