// A stack given by the program and one of a requested size are used; pthread_getattr_np reports them.
#include "guest.h"

static char *own_stack;
enum { SIZE = 256 * 1024 };

static void *on_own_stack(void *argument) {
    char here;
    CHECK(&here > own_stack && &here < own_stack + SIZE);
    return argument;
}

static void *on_sized_stack(void *argument) {
    pthread_attr_t attr;
    void *address;
    size_t size;
    OK(pthread_getattr_np(pthread_self(), &attr));
    OK(pthread_attr_getstack(&attr, &address, &size));
    char here, deep[3 * SIZE];
    memset(deep, 7, sizeof deep);
    CHECK(&here > (char *)address && &here < (char *)address + size && deep[SIZE] == 7);
    printf("size %zu\n", size);
    return argument;
}

int main(void) {
    pthread_attr_t attr;
    pthread_t thread;
    CHECK((own_stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    OK(pthread_attr_init(&attr));
    OK(pthread_attr_setstack(&attr, own_stack, SIZE));
    OK(pthread_create(&thread, &attr, on_own_stack, NULL));
    join(thread);
    OK(pthread_attr_init(&attr));
    OK(pthread_attr_setstacksize(&attr, 4 * SIZE));
    OK(pthread_create(&thread, &attr, on_sized_stack, NULL));
    join(thread);
    puts("both stacks used");
}
