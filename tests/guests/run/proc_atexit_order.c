// atexit handlers run last in first out, also those registered meanwhile, then destructors; _exit runs none.
// exit: 5
#include "guest.h"

static void first(void) { puts("first registered, last run"); }
static void late(void) { puts("registered by a handler"); }
static void second(void) {
    puts("second");
    CHECK(atexit(late) == 0);
}
static void with_status(int status, void *argument) { printf("on_exit %d %s\n", status, (char *)argument); }
__attribute__((destructor)) static void destructor(void) {
    puts("destructor");
    fflush(stdout);
}
__attribute__((constructor)) static void constructor(void) { puts("constructor"); }

int main(void) {
    CHECK(atexit(first) == 0 && atexit(second) == 0 && on_exit(with_status, "argument") == 0);
    puts("main");
    exit(5);
}
