// A handler that uses the vector registers does not disturb the interrupted computation.
#include "guest.h"

static volatile double noise;

static void handler(int number) {
    double sum = number;
    for (int i = 1; i < 50; i++)
        sum += 1.0 / i;
    noise = sum;
}

int main(void) {
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    double sum = 0;
    long pid = getpid();
    for (int i = 1; i <= 50; i++) {
        long result;
        double term = 1.0 / (i * i);
        __asm__ volatile("syscall" : "=a"(result), "+x"(term), "+x"(sum) : "a"(SYS_kill), "D"(pid), "S"(SIGUSR1) : "rcx", "r11", "memory");
        CHECK(result == 0);
        sum += term;
    }
    printf("%.10f\n", sum);
}
