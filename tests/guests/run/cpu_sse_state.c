// SSE registers and the rounding mode of each thread survive switches at system calls.
// build: -frounding-math -lm
#include "guest.h"
#include <emmintrin.h>
#include <fenv.h>

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    CHECK(fesetround(me % 2 ? FE_UPWARD : FE_DOWNWARD) == 0);
    __m128i mark = _mm_set1_epi32(0x1000 + me), got;
    for (int i = 0; i < 50; i++) {
        long result;
        register __m128i held __asm__("xmm9") = mark;
        __asm__ volatile("syscall"
                         : "=a"(result), "+x"(held)
                         : "a"(SYS_sched_yield)
                         : "rcx", "r11", "memory");
        got = held;
        CHECK(result == 0 && _mm_movemask_epi8(_mm_cmpeq_epi32(got, mark)) == 0xffff);
        CHECK(fegetround() == (me % 2 ? FE_UPWARD : FE_DOWNWARD));
    }
    volatile double one = 1.0, three = 3.0;
    return (void *)(intptr_t)(one / three * 3.0 > 1.0);
}

int main(void) {
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        threads[i] = start(body, (void *)i);
    for (int i = 0; i < 4; i++)
        printf("thread %d rounds up: %ld\n", i, (long)(intptr_t)join(threads[i]));
}
