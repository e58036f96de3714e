// setjmp and longjmp within a thread while others run; getcontext and swapcontext switch stacks in user space.
#include "guest.h"
#include <ucontext.h>

static void *jumper(void *argument) {
    jmp_buf back;
    volatile int jumps = 0;
    if (setjmp(back) < 5) {
        jumps++;
        sched_yield();
        longjmp(back, jumps);
    }
    *(int *)argument = jumps;
    return NULL;
}

static ucontext_t main_context, other_context;
static char stack[65536];

static void coroutine(void) {
    for (int i = 0; i < 3; i++) {
        printf("coroutine %d\n", i);
        swapcontext(&other_context, &main_context);
    }
}

int main(void) {
    int jumps[2];
    pthread_t one = start(jumper, &jumps[0]), two = start(jumper, &jumps[1]);
    CHECK(getcontext(&other_context) == 0);
    other_context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
    other_context.uc_link = &main_context;
    makecontext(&other_context, coroutine, 0);
    for (int i = 0; i < 3; i++) {
        CHECK(swapcontext(&main_context, &other_context) == 0);
        printf("main %d\n", i);
    }
    join(one);
    join(two);
    printf("jumps %d %d\n", jumps[0], jumps[1]);
}
