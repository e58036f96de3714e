// A deferred cancellation takes effect at a blocking call, runs the cleanup handlers last in first out, and unlocks.
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t waiting;

static void unlock(void *argument) {
    puts("cleanup: unlock");
    OK(pthread_mutex_unlock(argument));
}

static void say(void *argument) { printf("cleanup: %s\n", (char *)argument); }

static void *body(void *argument) {
    pthread_cleanup_push(say, "outer");
    OK(pthread_mutex_lock(&lock));
    pthread_cleanup_push(unlock, &lock);
    CHECK(sem_post(&waiting) == 0);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(1);
    return argument;
}

int main(void) {
    CHECK(sem_init(&waiting, 0, 0) == 0);
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&waiting) == 0);
    OK(pthread_cancel(thread));
    CHECK(join(thread) == PTHREAD_CANCELED);
    OK(pthread_mutex_trylock(&lock));
    puts("cancelled, mutex free");
}
