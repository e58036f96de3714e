// rdtsc and rdtscp never go back, across threads handing over and across sleeps.
#include "guest.h"
#include <x86intrin.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long last;

static void *body(void *argument) {
    unsigned core;
    for (int i = 0; i < 20; i++) {
        OK(pthread_mutex_lock(&lock));
        unsigned long long now = i % 2 ? __rdtsc() : __rdtscp(&core);
        CHECK(now >= last);
        last = now;
        OK(pthread_mutex_unlock(&lock));
    }
    return argument;
}

int main(void) {
    pthread_t one = start(body, NULL), two = start(body, NULL);
    join(one);
    join(two);
    unsigned long long before = __rdtsc();
    sleep_ms(1);
    CHECK(__rdtsc() > before);
    puts("monotonic");
}
