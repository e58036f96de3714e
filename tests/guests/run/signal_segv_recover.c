// A SIGSEGV handler sees the faulting address and recovers with siglongjmp, again and again, and on two threads.
#include "guest.h"

static __thread sigjmp_buf back;
static __thread void *volatile fault;

static void handler(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGSEGV && context);
    fault = info->si_addr;
    siglongjmp(back, info->si_code);
}

static int code_of_write(volatile char *address) {
    int code = sigsetjmp(back, 1);
    if (code == 0)
        *address = 1;
    return code;
}

static void *body(void *argument) {
    CHECK(code_of_write((char *)16) == SEGV_MAPERR && fault == (void *)16);
    CHECK(code_of_write(argument) == SEGV_ACCERR && fault == argument);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread = start(body, page);
    body(page);
    join(thread);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0 && code_of_write(page) == 0);
    puts("recovered");
}
