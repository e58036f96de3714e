// A loop whose registers recur while only memory changes is a computation, not a wait: whenever it is looked at, it goes on.
#include "guest.h"

static long rounds = 20000000, state, total;

int main(void) {
    // With state 0 the registers are the same again after a few instructions; the next round takes another way.
    __asm__ volatile("1: xorl %%eax, %%eax\n"
                     "   movq %[state], %%rax\n"
                     "   testq %%rax, %%rax\n"
                     "   jne 2f\n"
                     "   movq $1, %[state]\n"
                     "   jmp 1b\n"
                     "2: addq $1, %[total]\n"
                     "   nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop\n"
                     "   movq $0, %[state]\n"
                     "   subq $1, %[rounds]\n"
                     "   jne 1b\n"
                     : [state] "+m"(state), [total] "+m"(total), [rounds] "+m"(rounds)
                     :
                     : "rax", "cc", "memory");
    printf("%ld rounds\n", total);
}
