// Code written into memory and made executable runs (as a compiler at run time does it), in two threads.
#include "guest.h"

static int (*add)(int, int);

static void *body(void *argument) { return (void *)(intptr_t)add((int)(intptr_t)argument, 40); }

int main(void) {
    // lea eax, [rdi+rsi]; ret
    static const unsigned char code[] = {0x8d, 0x04, 0x37, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    add = (int (*)(int, int))page;
    pthread_t one = start(body, (void *)1), two = start(body, (void *)2);
    printf("%ld ", (long)(intptr_t)join(one));
    printf("%ld\n", (long)(intptr_t)join(two));
}
