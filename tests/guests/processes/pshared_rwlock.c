// A read-write lock in shared memory: readers together, the writer alone.
#include "processes.h"

struct state {
    pthread_rwlock_t lock;
    int value, copy;
};

int main(void) {
    struct state *state = shared_memory(sizeof *state);
    pthread_rwlockattr_t attributes;
    OK(pthread_rwlockattr_init(&attributes));
    OK(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_rwlock_init(&state->lock, &attributes));
    OK(pthread_rwlock_rdlock(&state->lock));
    FINE(CHILD(OK(pthread_rwlock_tryrdlock(&state->lock)); OK(pthread_rwlock_unlock(&state->lock));
               CHECK(pthread_rwlock_trywrlock(&state->lock) == EBUSY)));
    OK(pthread_rwlock_unlock(&state->lock));
    pid_t writer = CHILD(for (int i = 0; i < 5; i++) {
        OK(pthread_rwlock_wrlock(&state->lock));
        state->value++;
        state->copy++;
        OK(pthread_rwlock_unlock(&state->lock));
    });
    pid_t readers[2];
    for (int r = 0; r < 2; r++)
        readers[r] = CHILD(for (int i = 0; i < 5; i++) {
            OK(pthread_rwlock_rdlock(&state->lock));
            CHECK(state->value == state->copy);
            OK(pthread_rwlock_unlock(&state->lock));
        });
    FINE(writer);
    FINE(readers[0]);
    FINE(readers[1]);
    printf("%d\n", state->value);
}
