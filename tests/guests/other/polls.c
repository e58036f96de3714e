// Sleeps, looks, and sleeps again: in one of many ways, for what comes or for what does not. The way is the first argument.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, forks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ends[2];

static const struct timespec MILLISECOND = {.tv_nsec = 1000000};

static struct timespec soon(void) {
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    moment.tv_nsec += 1000000;
    moment.tv_sec += moment.tv_nsec / 1000000000;
    moment.tv_nsec %= 1000000000;
    return moment;
}

static void *sleeps(void *microseconds) {
    while (!done)
        usleep((useconds_t)(long)microseconds);
    return NULL;
}

static void beside(void *(*other)(void *), long argument, void (*own)(void)) {
    pthread_t thread;
    pthread_create(&thread, NULL, other, (void *)argument);
    own();
    pthread_join(thread, NULL);
}

// What is looked for never comes.

static void by_usleep(void) {
    sleeps((void *)1000);
}

static void by_nanosleep(void) {
    while (!done)
        nanosleep(&MILLISECOND, NULL);
}

static void by_clock_nanosleep(void) {
    while (!done)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &MILLISECOND, NULL);
}

static void by_absolute_sleep(void) {
    while (!done) {
        struct timespec moment = soon();
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &moment, NULL);
    }
}

static void by_poll(void) {
    struct pollfd wanted = {.events = POLLIN};
    pipe(ends);
    wanted.fd = ends[0];
    while (poll(&wanted, 1, 100) == 0)
        ;
}

static void by_select(void) {
    while (!done) {
        struct timeval wait = {.tv_usec = 1000};
        select(0, NULL, NULL, NULL, &wait);
    }
}

static void by_epoll(void) {
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    pipe(ends);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    while (epoll_wait(epoll, &event, 1, 50) == 0)
        ;
}

static void by_condition(void) {
    pthread_mutex_lock(&lock);
    while (!done) {
        struct timespec moment = soon();
        pthread_cond_timedwait(&changed, &lock, &moment);
    }
    pthread_mutex_unlock(&lock);
}

static void by_semaphore(void) {
    sem_t posted;
    sem_init(&posted, 0, 0);
    struct timespec moment;
    do
        moment = soon();
    while (sem_timedwait(&posted, &moment));
}

static void under_lock(void) {
    int value = 0;
    while (!value) {
        pthread_mutex_lock(&lock);
        value = done;
        pthread_mutex_unlock(&lock);
        usleep(1000);
    }
}

static void *waits_for_ever(void *unused) {
    char byte;
    pipe(ends);
    (void)!read(ends[0], &byte, 1);
    return unused;
}

static void beside_one_that_waits(void) {
    beside(waits_for_ever, 0, by_usleep);
}

static void two_of_them(void) {
    beside(sleeps, 1000, by_usleep);
}

static void two_at_odds(void) {
    beside(sleeps, 1500, by_usleep);
}

static void *sleeps_long(void *unused) {
    sleep(3600);
    return unused;
}

static void beside_one_that_sleeps(void) {
    beside(sleeps_long, 0, by_usleep);
}

static void *looks(void *unused) {
    while (!done)
        poll(NULL, 0, 0);
    return unused;
}

static void beside_one_that_looks(void) {
    beside(looks, 0, by_usleep);
}

static void *waits_for_condition(void *unused) {
    by_condition();
    return unused;
}

static void two_conditions(void) {
    beside(waits_for_condition, 0, by_condition);
}

// What is looked for comes, or the program has an end all the same.

static void count_rounds(void) {
    for (volatile int rounds = 0; rounds < 300; rounds++)
        usleep(1000);
}

static void until_then(void) {
    time_t end = time(NULL) + 10;
    while (time(NULL) < end)
        usleep(1000);
}

static void *sets(void *seconds) {
    sleep((unsigned)(long)seconds);
    done = 1;
    return NULL;
}

static void set_later(void) {
    beside(sets, 20, by_usleep);
}

static void set_much_later(void) {
    beside(sets, 200000, by_usleep);
}

static void note(int signal) {
    (void)signal;
    done = 1;
}

static void alarm_clock(void) {
    signal(SIGALRM, note);
    alarm(30);
    by_usleep();
}

static volatile int ticks;

static void tick(int signal) {
    (void)signal;
    done = ++ticks == 50;
}

static void ticking(void) {
    struct itimerval every = {.it_interval = {.tv_usec = 10000}, .it_value = {.tv_usec = 10000}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, NULL);
    while (!done)
        usleep(100000);
}

static void timer_descriptor(void) {
    struct itimerspec every = {.it_interval = {.tv_sec = 1}, .it_value = {.tv_sec = 1}};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    unsigned long expired;
    timerfd_settime(timer, 0, &every, NULL);
    for (int left = 40; left > 0; left -= (int)expired)
        if (read(timer, &expired, sizeof expired) != sizeof expired || expired != 1)
            abort();
}

static void child_ends(void) {
    pid_t child = fork();
    if (child == 0) {
        sleep(5);
        _exit(0);
    }
    while (waitpid(child, NULL, WNOHANG) == 0)
        usleep(1000);
}

// Nothing comes, and nobody waits for anything: that may be meant so.

static void *philosopher(void *seat) {
    for (;;) {
        pthread_mutex_lock(&forks[0]);
        pthread_mutex_lock(&forks[1]);
        usleep(1000);
        pthread_mutex_unlock(&forks[1]);
        pthread_mutex_unlock(&forks[0]);
        usleep(1000);
    }
    return seat;
}

static void one_philosopher(void) {
    philosopher(NULL);
}

static void philosophers(void) {
    beside(philosopher, 0, one_philosopher);
}

static const struct {
    const char *name;
    void (*go)(void);
} WAYS[] = {
    {"usleep", by_usleep},
    {"nanosleep", by_nanosleep},
    {"clock_nanosleep", by_clock_nanosleep},
    {"absolute-sleep", by_absolute_sleep},
    {"poll", by_poll},
    {"select", by_select},
    {"epoll", by_epoll},
    {"condition", by_condition},
    {"semaphore", by_semaphore},
    {"under-lock", under_lock},
    {"beside-one-that-waits", beside_one_that_waits},
    {"two-of-them", two_of_them},
    {"two-at-odds", two_at_odds},
    {"beside-one-that-sleeps", beside_one_that_sleeps},
    {"beside-one-that-looks", beside_one_that_looks},
    {"two-conditions", two_conditions},
    {"count-rounds", count_rounds},
    {"until-then", until_then},
    {"set-later", set_later},
    {"set-much-later", set_much_later},
    {"alarm-clock", alarm_clock},
    {"ticking", ticking},
    {"timer-descriptor", timer_descriptor},
    {"child-ends", child_ends},
    {"philosophers", philosophers},
};

int main(int count, char **args) {
    for (size_t way = 0; count > 1 && way < sizeof WAYS / sizeof *WAYS; way++) {
        if (strcmp(args[1], WAYS[way].name))
            continue;
        WAYS[way].go();
        puts("bye");
        return 0;
    }
    return 2;
}
