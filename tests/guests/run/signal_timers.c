// alarm, setitimer and timer_create: each delivers its signal at its time; an interval timer again and again.
#include "guest.h"

static volatile sig_atomic_t alarms, values;

static void on_alarm(int number) {
    alarms++;
    (void)number;
}

static void on_timer(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGRTMIN && info->si_code == SI_TIMER && context);
    values += info->si_value.sival_int;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm}, with_info = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGRTMIN, &with_info, NULL) == 0);
    CHECK(alarm(3600) == 0);
    unsigned left = alarm(0);
    CHECK(left > 3500 && left <= 3600);
    struct itimerval interval = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}}, was;
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
    while (alarms < 3)
        pause();
    CHECK(setitimer(ITIMER_REAL, &off, &was) == 0 && was.it_interval.tv_usec == 1000);
    puts("three alarms");
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 7};
    struct itimerspec spec = {{0, 0}, {0, 1000000}}, current;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &spec, NULL) == 0);
    while (values == 0)
        sleep_ms(1);
    printf("timer value %d\n", values);
    CHECK(timer_gettime(timer, &current) == 0 && current.it_value.tv_nsec == 0);
    CHECK(timer_getoverrun(timer) == 0 && timer_delete(timer) == 0);
}
