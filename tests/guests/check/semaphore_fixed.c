// Who finds no free slot waits for one.
#include "guest.h"
#include <assert.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t free_slots;
static int slots = 1;

static void *user(void *argument) {
    sem_wait(&free_slots);
    pthread_mutex_lock(&lock);
    slots--;
    assert(slots >= 0);
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    slots++;
    pthread_mutex_unlock(&lock);
    sem_post(&free_slots);
    return argument;
}

int main(void) {
    sem_init(&free_slots, 0, 1);
    pthread_t one = start(user, NULL), two = start(user, NULL);
    join(one);
    join(two);
}
