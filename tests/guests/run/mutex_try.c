// How trylock behaves: EBUSY while another holds it, success afterwards; a normal mutex is also busy for its owner.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t held, release;

static void *holder(void *argument) {
    OK(pthread_mutex_lock(&lock));
    CHECK(sem_post(&held) == 0);
    CHECK(sem_wait(&release) == 0);
    OK(pthread_mutex_unlock(&lock));
    return argument;
}

int main(void) {
    CHECK(sem_init(&held, 0, 0) == 0 && sem_init(&release, 0, 0) == 0);
    pthread_t thread = start(holder, NULL);
    CHECK(sem_wait(&held) == 0);
    printf("held by another: %d\n", pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(sem_post(&release) == 0);
    int tries = 0;
    while (pthread_mutex_trylock(&lock) == EBUSY)
        tries += sched_yield();
    CHECK(tries == 0);
    printf("held by me: %d\n", pthread_mutex_trylock(&lock) == EBUSY);
    join(thread);
}
