// Numbers of system calls as the kernel reads them: the upper half of the register does not count, x32 calls and negative numbers do not exist.
#define _GNU_SOURCE
#include "../guest.h"
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>

static long call(uint64_t number, long a, long b, long c) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    const uint64_t high[] = {1ULL << 32, 1ULL << 63, 0xffffffffULL << 32};
    for (int i = 0; i < 3; i++) {
        printf("getpid: %d\n", call(high[i] | SYS_getpid, 0, 0, 0) == getpid());
        fflush(stdout);
        CHECK(call(high[i] | SYS_write, 1, (long)"written\n", 8) == 8);
    }
    const uint64_t none[] = {0x40000000 | SYS_getpid, 0xffffffff, -1ULL, -5ULL, 0x3fffffff, 0x7fffffff, 1ULL << 31};
    for (int i = 0; i < 7; i++)
        printf("%d\n", (int)call(none[i], 0, 0, 0));
    return 0;
}
