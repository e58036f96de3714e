// A ring of threads that pass a token, each waiting with sched_yield.
#include "guest.h"

static atomic_int token;

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int round = 0; round < 5; round++) {
        while (atomic_load(&token) % 3 != me)
            CHECK(sched_yield() == 0);
        printf("round %d thread %d\n", round, me);
        atomic_fetch_add(&token, 1);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        threads[i] = start(body, (void *)i);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
}
