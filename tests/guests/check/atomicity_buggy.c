// Every access to the balance is locked, but looking and taking are two critical sections: both threads may look first.
// expect: assert
// min-preemptions: 1
#include "guest.h"
#include <assert.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static void *withdraw(void *argument) {
    pthread_mutex_lock(&lock);
    int seen = balance;
    pthread_mutex_unlock(&lock);
    if (seen >= 100) {
        pthread_mutex_lock(&lock);
        balance -= 100;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

int main(void) {
    pthread_t one = start(withdraw, NULL), two = start(withdraw, NULL);
    join(one);
    join(two);
    assert(balance >= 0);
}
