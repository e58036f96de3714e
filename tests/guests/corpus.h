// Small programs, many to a file: called with the name of one and `bad` (its bug is in it) or `fine`.
#pragma once
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Whether the bug is in.
__attribute__((unused)) static int bad;

typedef void *(*body)(void *);
#define THREAD(name) static void *name(void *argument __attribute__((unused)))
#define LOCK(mutex) pthread_mutex_lock(&(mutex))
#define UNLOCK(mutex) pthread_mutex_unlock(&(mutex))
#define MUTEX(name) static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER
#define COND(name) static pthread_cond_t name = PTHREAD_COND_INITIALIZER

// Starts all, waits for all.
__attribute__((unused)) static void together(const body *bodies, int count) {
    pthread_t threads[8];
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, bodies[i], (void *)(long)i);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}
#define TOGETHER(...)                                                                                                  \
    do {                                                                                                               \
        const body bodies[] = {__VA_ARGS__};                                                                           \
        together(bodies, sizeof bodies / sizeof *bodies);                                                              \
    } while (0)

struct program {
    const char *name;
    void (*run)(void);
};

__attribute__((unused)) static int choose(const struct program *programs, int count, int argc, char **argv) {
    for (int i = 0; argc == 3 && i < count; i++)
        if (strcmp(programs[i].name, argv[1]) == 0) {
            bad = strcmp(argv[2], "bad") == 0;
            programs[i].run();
            return 0;
        }
    return 64;
}
#define PROGRAMS(...)                                                                                                  \
    int main(int argc, char **argv) {                                                                                  \
        const struct program programs[] = {__VA_ARGS__};                                                               \
        return choose(programs, sizeof programs / sizeof *programs, argc, argv);                                       \
    }
#define P(name) {#name, name}
