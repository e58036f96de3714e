// Sleep sort: threads that sleep for different times end in that order.
#include "guest.h"

static int64_t base, unit;
static atomic_int ended, late;
static int order[4];

static void *body(void *argument) {
    int n = (int)(intptr_t)argument;
    int64_t at = base + n * unit;
    struct timespec until = {at / 1000000000, at % 1000000000};
    OK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    order[atomic_fetch_add(&ended, 1)] = n;
    // By then the next one may have been due.
    if (now_ns(CLOCK_MONOTONIC) >= at + unit)
        late = 1;
    return NULL;
}

// Whether no thread was so late that the order says nothing: a slow machine needs longer times.
static int sorted_in_time(void) {
    int numbers[4] = {3, 1, 4, 2};
    pthread_t threads[4];
    base = now_ns(CLOCK_MONOTONIC);
    ended = late = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = start(body, (void *)(intptr_t)numbers[i]);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    return !late;
}

int main(void) {
    for (unit = 40 * 1000000; !sorted_in_time(); unit *= 2)
        ;
    for (int i = 0; i < 4; i++)
        printf("%d\n", order[i]);
}
