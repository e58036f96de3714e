// A barrier lets a full round go at once, exactly one thread of each round is the serial one, and it is reusable.
#include "guest.h"

static pthread_barrier_t barrier;
static atomic_int serial, arrivals[3];

static void *body(void *argument) {
    for (int round = 0; round < 3; round++) {
        atomic_fetch_add(&arrivals[round], 1);
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK(arrivals[round] == 4);
        serial += result == PTHREAD_BARRIER_SERIAL_THREAD;
    }
    return argument;
}

int main(void) {
    pthread_t threads[4];
    OK(pthread_barrier_init(&barrier, NULL, 4));
    for (int i = 0; i < 4; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    OK(pthread_barrier_destroy(&barrier));
    printf("serial threads in three rounds: %d\n", serial);
}
