// Traps that a program makes for itself: breakpoints, also in code that it writes over, int1, single steps.
#define _GNU_SOURCE
#include "../guest.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ucontext.h>

static volatile int traps, codes[64];
static volatile int steps, leave;
static sigjmp_buf back;

static void on_trap(int signo, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    codes[traps++ % 64] = info->si_code;
    if (steps && --steps == 0)
        uc->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
    if (leave)
        siglongjmp(back, signo);
}

__attribute__((noinline)) static void single_step(void) {
    asm volatile("pushf; orl $0x100, (%%rsp); popf; nop; nop; nop; nop; nop; nop" ::: "memory", "cc");
}

static void *idle(void *arg) { return arg; }

/// Writes `bytes` over a function of the C library, calls it, and puts everything back.
static void overwrite(unsigned char *function, const unsigned char *bytes, size_t len) {
    unsigned char before[16];
    unsigned char *page = (unsigned char *)((uintptr_t)function & ~4095UL);
    CHECK(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    memcpy(before, function, len);
    printf("an int3 is there: %d\n", before[0] == 0xcc);
    memcpy(function, bytes, len);
    ((void (*)(void))function)();
    memcpy(function, before, len);
    CHECK(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0);
}

int main(void) {
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, idle, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);

    asm volatile("int3");
    printf("int3: %d of code %d\n", traps, codes[0]);
    traps = 0;
    // Some virtual machines leave the instruction pointer before it.
    leave = 1;
    if (sigsetjmp(back, 1) == 0)
        asm volatile(".byte 0xf1");
    leave = 0;
    printf("int1: %d of code %d\n", traps, codes[0]);
    traps = 0, steps = 5;
    single_step();
    printf("single steps: %d of code %d\n", traps, codes[0]);

    const unsigned char own[] = {0xcc, 0xc3};
    traps = 0;
    overwrite((unsigned char *)pthread_mutex_lock, own, sizeof own);
    printf("its own int3 in the C library: %d of code %d\n", traps, codes[0]);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return 0;
}
