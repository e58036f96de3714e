// What the processor tells of the core that it is: the same on every core, for every worker.
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

static void *body(void *argument) {
    pthread_mutex_lock(&lock);
    printf("%u %u %lu %u\n", initial_apic_id(), extended_apic_id(), from_rdpid(), from_segment());
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(body, NULL), other = start(body, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    return 0;
}
