// Two files that take the same two locks in the same order.
// with: lock_order_fixed_audit.c
#include "guest.h"

pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, journal = PTHREAD_MUTEX_INITIALIZER;
int balance = 10, entries;
void *audit(void *argument);

static void *transfer(void *argument) {
    pthread_mutex_lock(&accounts);
    balance--;
    pthread_mutex_lock(&journal);
    entries++;
    pthread_mutex_unlock(&journal);
    pthread_mutex_unlock(&accounts);
    return argument;
}

int main(void) {
    pthread_t one = start(transfer, NULL), two = start(audit, NULL);
    join(one);
    join(two);
}
