// A handler always interrupts nanosleep, with the time left; clock_nanosleep and a futex wait too.
#include "guest.h"

static volatile sig_atomic_t handled;

static void handler(int number) { handled = number; }

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    // Again and again: on a slow machine the first may come before the sleep that it is to interrupt.
    struct itimerval often = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    struct timespec long_time = {3600, 0}, left = {0, 0};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    FAILS(nanosleep(&long_time, &left), EINTR);
    CHECK(handled == SIGALRM && left.tv_sec > 3000 && left.tv_sec < 3600);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, &left) == EINTR && left.tv_sec > 3000);
    FAILS(pause(), EINTR);
    sem_t never;
    CHECK(sem_init(&never, 0, 0) == 0);
    action.sa_flags = 0;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    FAILS(sem_wait(&never), EINTR);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    puts("sleeps interrupted");
}
