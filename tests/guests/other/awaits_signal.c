// Waits for SIGTERM in one of many ways, or for what no signal brings about. The way is the first argument.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t got;
static sem_t posted;
static int ends[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static sigset_t term, before;

static void note(int signal) {
    got = signal;
}

static void post(int signal) {
    got = signal;
    sem_post(&posted);
}

static void tell(int signal) {
    got = signal;
    (void)!write(ends[1], "x", 1);
}

static void leave(int signal) {
    (void)signal;
    _exit(0);
}

static void handle(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGTERM, &action, NULL);
}

static void block(void) {
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
}

static void *wait_for_signal(void *unused) {
    int signal;
    sigwait(&term, &signal);
    (void)unused;
    return NULL;
}

static void *wait_for_nobody(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;)
        pthread_cond_wait(&never, &lock);
    return unused;
}

static void *take_in_turn(void *unused) {
    pthread_mutex_lock(&other_lock);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&lock);
    return unused;
}

static void take_in_other_turn(void) {
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, take_in_turn, NULL);
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&other_lock);
}

// Ways that are right.

static void sigsuspend_way(void) {
    block();
    handle(note, 0);
    while (!got)
        sigsuspend(&before);
}

static void pause_for_ever(void) {
    for (;;)
        pause();
}

static void sigwait_way(void) {
    block();
    wait_for_signal(NULL);
}

static void sigwaitinfo_ignored(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (sigwaitinfo(&set, NULL) != SIGWINCH)
        abort();
}

static int descriptor(void) {
    block();
    return signalfd(-1, &term, 0);
}

static void signalfd_read(void) {
    struct signalfd_siginfo info;
    if (read(descriptor(), &info, sizeof info) != sizeof info || info.ssi_signo != SIGTERM)
        abort();
}

static void signalfd_poll(void) {
    struct pollfd wanted = {.fd = descriptor(), .events = POLLIN};
    if (poll(&wanted, 1, -1) != 1)
        abort();
}

static void signalfd_epoll(void) {
    int epoll = epoll_create1(0), fd = descriptor();
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    if (epoll_wait(epoll, &event, 1, -1) != 1)
        abort();
}

static void ppoll_way(void) {
    block();
    handle(note, 0);
    while (!got)
        ppoll(NULL, 0, NULL, &before);
}

static void ppoll_default(void) {
    struct pollfd wanted = {.events = POLLIN};
    block();
    pipe(ends);
    wanted.fd = ends[0];
    ppoll(&wanted, 1, NULL, &before);
}

static void pselect_way(void) {
    fd_set set;
    block();
    handle(note, 0);
    pipe(ends);
    while (!got) {
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        pselect(ends[0] + 1, &set, NULL, NULL, NULL, &before);
    }
}

static void semaphore_way(void) {
    sem_init(&posted, 0, 0);
    handle(post, SA_RESTART);
    while (sem_wait(&posted))
        ;
}

static void self_pipe(void) {
    char byte;
    pipe(ends);
    handle(tell, SA_RESTART);
    if (read(ends[0], &byte, 1) != 1)
        abort();
}

static void joins_waiter(void) {
    pthread_t thread;
    block();
    pthread_create(&thread, NULL, wait_for_signal, NULL);
    pthread_join(thread, NULL);
}

static void yields(void) {
    handle(note, 0);
    while (!got)
        sched_yield();
}

static void looks(void) {
    handle(note, 0);
    while (!got)
        poll(NULL, 0, 0);
}

static void sleeps(void) {
    handle(note, 0);
    while (!got)
        usleep(1000);
}

static void stops_child(void) {
    handle(note, 0);
    block();
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        for (;;)
            pause();
    }
    while (!got)
        sigsuspend(&before);
    kill(child, SIGTERM);
    waitpid(child, NULL, 0);
}

// Ways that are wrong.

static void check_then_pause(void) {
    handle(note, 0);
    while (!got)
        pause();
}

static void pause_blocked(void) {
    block();
    pause();
}

static void pause_ignored(void) {
    handle(SIG_IGN, 0);
    pause();
}

static void nobody_signals(void) {
    wait_for_nobody(NULL);
}

static void nobody_signals_handled(void) {
    handle(note, 0);
    wait_for_nobody(NULL);
}

static void nobody_signals_left(void) {
    handle(leave, 0);
    wait_for_nobody(NULL);
}

static void two_signals_left(void) {
    pthread_t thread;
    handle(leave, 0);
    pthread_create(&thread, NULL, wait_for_nobody, NULL);
    wait_for_nobody(NULL);
}

static void locks_beside_waiter(void) {
    pthread_t thread;
    block();
    pthread_create(&thread, NULL, wait_for_signal, NULL);
    take_in_other_turn();
}

static void waits_for_child(void) {
    if (fork() == 0)
        for (;;)
            pause();
    wait(NULL);
}

static const struct {
    const char *name;
    void (*go)(void);
} WAYS[] = {
    {"sigsuspend", sigsuspend_way},
    {"pause", pause_for_ever},
    {"sigwait", sigwait_way},
    {"sigwaitinfo-ignored", sigwaitinfo_ignored},
    {"signalfd-read", signalfd_read},
    {"signalfd-poll", signalfd_poll},
    {"signalfd-epoll", signalfd_epoll},
    {"ppoll", ppoll_way},
    {"ppoll-default", ppoll_default},
    {"pselect", pselect_way},
    {"semaphore", semaphore_way},
    {"self-pipe", self_pipe},
    {"joins-waiter", joins_waiter},
    {"yields", yields},
    {"looks", looks},
    {"sleeps", sleeps},
    {"stops-child", stops_child},
    {"check-then-pause", check_then_pause},
    {"pause-blocked", pause_blocked},
    {"pause-ignored", pause_ignored},
    {"nobody-signals", nobody_signals},
    {"nobody-signals-handled", nobody_signals_handled},
    {"nobody-signals-left", nobody_signals_left},
    {"two-signals-left", two_signals_left},
    {"locks-beside-waiter", locks_beside_waiter},
    {"waits-for-child", waits_for_child},
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
