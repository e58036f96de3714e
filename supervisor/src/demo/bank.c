// Two tellers move money between two accounts, each account with a lock of its own.
// With -DFIXED both take the locks in the same order.
#include <pthread.h>
#include <stdio.h>

struct account {
    pthread_mutex_t lock;
    int balance;
};

static struct account savings = {PTHREAD_MUTEX_INITIALIZER, 100};
static struct account current = {PTHREAD_MUTEX_INITIALIZER, 100};

static void transfer(struct account *from, struct account *to, int amount) {
    struct account *first = from, *second = to;
#ifdef FIXED
    if (second < first)
        first = to, second = from;
#endif
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    from->balance -= amount;
    to->balance += amount;
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static void *deposit(void *unused) {
    transfer(&current, &savings, 30);
    return unused;
}

static void *withdraw(void *unused) {
    transfer(&savings, &current, 10);
    return unused;
}

int main(void) {
    pthread_t tellers[2];
    pthread_create(&tellers[0], NULL, deposit, NULL);
    pthread_create(&tellers[1], NULL, withdraw, NULL);
    pthread_join(tellers[0], NULL);
    pthread_join(tellers[1], NULL);
    printf("savings %d, current %d\n", savings.balance, current.balance);
    return 0;
}
