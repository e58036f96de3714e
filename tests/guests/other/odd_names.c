// A function and two variables whose names are Latin-1.
// build: -rdynamic
#include "guest.h"

int number asm("z\351ro") = 3;
pthread_mutex_t lock asm("verrou\351") = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void odd(void) asm("caf\351");

void odd(void) {
    if (number == 3)
        abort();
}

static void *body(void *argument) {
    OK(pthread_mutex_lock(&lock));
    odd();
    OK(pthread_mutex_unlock(&lock));
    return argument;
}

int main(void) { join(start(body, NULL)); }
