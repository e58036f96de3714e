// Code is replaced by other code, by mapping and by moving memory over it: a breakpoint where there was an atomic instruction is the program's own.
#include "guest.h"

static volatile int traps;
static void on_trap(int signo) { traps++, (void)signo; }
static void *idle(void *arg) { return arg; }

int counter;
void first(void), second(void);
asm(".pushsection .text.replaced, \"ax\"\n"
    ".balign 4096\n"
    "first: lock incl counter(%rip)\n ret\n"
    ".balign 4096\n"
    "second: lock incl counter(%rip)\n ret\n"
    ".balign 4096\n"
    ".popsection\n");

static void trap_at(unsigned char *page) {
    memcpy(page, "\xcc\xc3", 2);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
}

int main(void) {
    signal(SIGTRAP, on_trap);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, idle, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    first(), second();
    printf("%d added, %d traps\n", counter, traps);
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
    CHECK(mmap(first, 4096, PROT_READ | PROT_WRITE, how | MAP_FIXED, -1, 0) == (void *)first);
    trap_at((unsigned char *)first);
    unsigned char *other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, how, -1, 0);
    trap_at(other);
    CHECK(mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, second) == (void *)second);
    first(), second();
    printf("%d added, %d traps\n", counter, traps);
    return 0;
}
