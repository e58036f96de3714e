// What the processor tells of the core that it is: the same on every core, for every worker, and in all threads. Natively they are
// all put on one core; what is told of it stays in memory, where it is part of the state.
// outcomes: "0 0 0 0\n0 0 0 0\n"
#include "guest.h"
#include <cpuid.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned initial_apic_id(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    return b >> 24;
}

static unsigned extended_apic_id(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(0xb, 0, &a, &b, &c, &d) ? d : 0;
}

static unsigned long from_rdpid(void) {
    unsigned a, b, c, d;
    unsigned long core = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1 << 22)))
        __asm__ volatile("rdpid %0" : "=r"(core));
    return core;
}

/* The segment whose limit is the number of the core, as the kernel's own fast getcpu reads it. */
static unsigned from_segment(void) {
    unsigned limit = 0, selector = 0x7b;
    __asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(selector) : "cc");
    return limit;
}

static unsigned long told[4];

static void *body(void *argument) {
    pthread_mutex_lock(&lock);
    printf("%lu %lu %lu %lu\n", initial_apic_id() - told[0], extended_apic_id() - told[1], from_rdpid() - told[2],
           from_segment() - told[3]);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    cpu_set_t one_core;
    CPU_ZERO(&one_core);
    CPU_SET(sched_getcpu(), &one_core);
    CHECK(sched_setaffinity(0, sizeof one_core, &one_core) == 0);
    told[0] = initial_apic_id();
    told[1] = extended_apic_id();
    told[2] = from_rdpid();
    told[3] = from_segment();
    pthread_t one = start(body, NULL), other = start(body, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    return 0;
}
