// The other half of lock_order_buggy.c: takes the journal lock first.
#include "guest.h"

extern pthread_mutex_t accounts, journal;
extern int balance, entries;
void *audit(void *argument);

void *audit(void *argument) {
    pthread_mutex_lock(&journal);
    pthread_mutex_lock(&accounts);
    if (balance + entries != 10)
        abort();
    pthread_mutex_unlock(&accounts);
    pthread_mutex_unlock(&journal);
    return argument;
}
