// Every read-modify-write the compiler emits (add, sub, and, or, xor, exchange, compare-exchange, 16 bytes) from threads.
#include "guest.h"

static atomic_long added, subtracted, xored;
static atomic_uint ored, anded = 0xffffffff;
static atomic_int taken, swapped_sum;
static _Atomic(uint8_t) narrow;
static atomic_int box;

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < 16; i++) {
        atomic_fetch_add(&added, me);
        atomic_fetch_sub(&subtracted, me);
        atomic_fetch_xor(&xored, 1L << i);
        atomic_fetch_or(&ored, 1u << (me * 8));
        atomic_fetch_and(&anded, ~(1u << (me * 8)));
        atomic_fetch_add(&narrow, 3);
        atomic_fetch_add(&swapped_sum, atomic_exchange(&box, me));
        int seen = atomic_load(&taken);
        while (!atomic_compare_exchange_weak(&taken, &seen, seen + 2))
            ;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        threads[i] = start(body, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("%ld %ld %lx %x %x %d %d %d\n", added, subtracted, xored, ored, anded, taken, narrow, swapped_sum + box);
}
