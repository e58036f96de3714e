// SIGFPE by integer division and SIGILL by ud2 reach their handlers with the right code; the handler skips or jumps.
#include "guest.h"
#include <ucontext.h>

static sigjmp_buf back;

static void on_fpe(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    siglongjmp(back, info->si_code == FPE_INTDIV ? 1 : 2);
}

static void on_ill(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

int main(void) {
    struct sigaction fpe = {.sa_sigaction = on_fpe, .sa_flags = SA_SIGINFO}, ill = {.sa_sigaction = on_ill, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGFPE, &fpe, NULL) == 0 && sigaction(SIGILL, &ill, NULL) == 0);
    volatile int zero = 0, one = 1;
    int code = sigsetjmp(back, 1);
    if (code == 0)
        one /= zero;
    printf("division: %d\n", code);
    __asm__ volatile("ud2");
    puts("went on behind ud2");
}
