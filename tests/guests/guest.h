// What every guest shares: the headers, and CHECK, which ends the program with status 99 and says on
// standard error what did not hold, so that a wrong model answer shows as one telling line.
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(cond)                                                                       \
    do {                                                                                  \
        if (!(cond)) {                                                                    \
            int check_errno = errno;                                                      \
            fprintf(stderr, "%s:%d: not true: %s (errno %d, %s)\n", __FILE__, __LINE__,   \
                    #cond, check_errno, strerror(check_errno));                           \
            _exit(99);                                                                    \
        }                                                                                 \
    } while (0)

// For functions that return an error number (the pthread family).
#define OK(call)                                                                          \
    do {                                                                                  \
        int ok_result = (call);                                                           \
        if (ok_result != 0) {                                                             \
            fprintf(stderr, "%s:%d: %s gave %d (%s)\n", __FILE__, __LINE__, #call,        \
                    ok_result, strerror(ok_result));                                      \
            _exit(99);                                                                    \
        }                                                                                 \
    } while (0)

// Expects a call to fail with exactly this errno.
#define FAILS(call, expected)                                                             \
    do {                                                                                  \
        errno = 0;                                                                        \
        CHECK((call) == -1);                                                              \
        CHECK(errno == (expected));                                                       \
    } while (0)

static inline pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, body, argument));
    return thread;
}

static inline void *join(pthread_t thread) {
    void *result;
    OK(pthread_join(thread, &result));
    return result;
}

static inline int64_t now_ns(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The absolute time `ms` from now on `clock`.
static inline struct timespec in_ms(clockid_t clock, int64_t ms) {
    int64_t at = now_ns(clock) + ms * 1000000;
    return (struct timespec){at / 1000000000, at % 1000000000};
}

static inline void sleep_ms(int64_t ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) == -1)
        CHECK(errno == EINTR);
}

static inline void write_all(int fd, const char *text) {
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}
#endif
