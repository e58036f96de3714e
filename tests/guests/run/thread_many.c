// 64 threads live at the same time (a barrier proves it) and count under one mutex.
#include "guest.h"

enum { THREADS = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_here;
static int count;

static void *body(void *argument) {
    (void)argument;
    pthread_barrier_wait(&all_here);
    OK(pthread_mutex_lock(&lock));
    count++;
    OK(pthread_mutex_unlock(&lock));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    OK(pthread_barrier_init(&all_here, NULL, THREADS));
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    printf("count %d\n", count);
}
