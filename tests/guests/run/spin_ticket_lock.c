// A hand-made ticket lock on atomic read-modify-write instructions.
#include "guest.h"

static atomic_uint next_ticket, now_serving;
static int counter;

static void *body(void *argument) {
    for (int i = 0; i < 20; i++) {
        unsigned mine = atomic_fetch_add(&next_ticket, 1);
        while (atomic_load(&now_serving) != mine)
            sched_yield();
        counter++;
        atomic_fetch_add(&now_serving, 1);
    }
    return argument;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start(body, NULL);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    printf("counter %d\n", counter);
}
