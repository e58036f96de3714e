// Looking and taking are one critical section.
#include "guest.h"
#include <assert.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static void *withdraw(void *argument) {
    pthread_mutex_lock(&lock);
    if (balance >= 100)
        balance -= 100;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(withdraw, NULL), two = start(withdraw, NULL);
    join(one);
    join(two);
    assert(balance == 0);
}
