// The wide registers (ymm, zmm and mask registers where the machine has them) survive thread switches.
#include "guest.h"
#include <immintrin.h>

static long raw_yield(void) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_sched_yield) : "rcx", "r11", "memory");
    return result;
}

__attribute__((target("avx"))) static void hold_ymm(int me) {
    __m256d mark = _mm256_set_pd(me, me + 0.25, me + 0.5, me + 0.75), got = mark;
    for (int i = 0; i < 50; i++) {
        long result;
        __asm__ volatile("vmovapd %2, %%ymm7\n\tsyscall\n\tvmovapd %%ymm7, %1"
                         : "=a"(result), "=x"(got)
                         : "x"(mark), "a"(SYS_sched_yield)
                         : "rcx", "r11", "memory", "xmm7");
        CHECK(memcmp(&got, &mark, sizeof got) == 0);
    }
}

__attribute__((target("avx512f"))) static void hold_zmm(int me) {
    __m512i mark = _mm512_set1_epi64(0x123456789abc0000 + me), got = mark;
    __mmask16 mask_in = (__mmask16)(0x5a00 + me), mask_out = 0;
    for (int i = 0; i < 50; i++) {
        long result;
        __asm__ volatile("vmovdqa64 %3, %%zmm21\n\tkmovw %4, %%k5\n\tsyscall\n\t"
                         "vmovdqa64 %%zmm21, %1\n\tkmovw %%k5, %2"
                         : "=a"(result), "=v"(got), "=k"(mask_out)
                         : "v"(mark), "k"(mask_in), "a"(SYS_sched_yield)
                         : "rcx", "r11", "memory", "xmm21", "k5");
        CHECK(memcmp(&got, &mark, sizeof got) == 0 && mask_in == mask_out);
    }
}

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    raw_yield();
    if (__builtin_cpu_supports("avx"))
        hold_ymm(me);
    if (__builtin_cpu_supports("avx512f"))
        hold_zmm(me);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        threads[i] = start(body, (void *)i);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    puts("wide registers kept");
}
