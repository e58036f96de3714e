// Time passes only when all threads wait: a wait with a limit ends by the post of a thread that can run at once, and times out
// before the one of a thread that sleeps for longer.
// outcomes: "posted timeout"
#include "guest.h"

static sem_t posted;

static void *post(void *argument) {
    sleep((unsigned)(intptr_t)argument);
    sem_post(&posted);
    return NULL;
}

int main(void) {
    sem_init(&posted, 0, 0);
    pthread_t one = start(post, (void *)0);
    struct timespec until = in_ms(CLOCK_REALTIME, 3600 * 1000);
    fputs(sem_timedwait(&posted, &until) == 0 ? "posted" : "timeout", stdout);
    join(one);
    start(post, (void *)7200);
    until = in_ms(CLOCK_REALTIME, 5);
    fputs(sem_timedwait(&posted, &until) == 0 ? " posted" : " timeout", stdout);
}
