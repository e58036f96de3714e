// A bounded buffer with two condition variables: one producer, one consumer, everything arrives in order.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int buffer[2], used, in, out;

static void *producer(void *argument) {
    for (int i = 0; i < 10; i++) {
        OK(pthread_mutex_lock(&lock));
        while (used == 2)
            OK(pthread_cond_wait(&not_full, &lock));
        buffer[in++ % 2] = i * i;
        used++;
        OK(pthread_cond_signal(&not_empty));
        OK(pthread_mutex_unlock(&lock));
    }
    return argument;
}

int main(void) {
    pthread_t thread = start(producer, NULL);
    for (int i = 0; i < 10; i++) {
        OK(pthread_mutex_lock(&lock));
        while (used == 0)
            OK(pthread_cond_wait(&not_empty, &lock));
        printf("%d\n", buffer[out++ % 2]);
        used--;
        OK(pthread_cond_signal(&not_full));
        OK(pthread_mutex_unlock(&lock));
    }
    join(thread);
}
