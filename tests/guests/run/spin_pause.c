// Two threads hand a turn back and forth, each spinning on an atomic load with the pause instruction.
#include "guest.h"

static atomic_int turn;
static int log_of[20], logged;

static void *body(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < 10; i++) {
        while (atomic_load(&turn) != me)
            __builtin_ia32_pause();
        log_of[logged++] = me;
        atomic_store(&turn, !me);
    }
    return NULL;
}

int main(void) {
    pthread_t other = start(body, (void *)1);
    body((void *)0);
    join(other);
    for (int i = 0; i < logged; i++)
        printf("%d", log_of[i]);
    puts("");
}
