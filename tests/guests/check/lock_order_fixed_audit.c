// The other half of lock_order_fixed.c: takes the accounts lock first.
#include "guest.h"

extern pthread_mutex_t accounts, journal;
extern int balance, entries;
void *audit(void *argument);

void *audit(void *argument) {
    pthread_mutex_lock(&accounts);
    pthread_mutex_lock(&journal);
    if (balance + entries != 10)
        abort();
    pthread_mutex_unlock(&journal);
    pthread_mutex_unlock(&accounts);
    return argument;
}
