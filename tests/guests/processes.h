// What guests of several processes share: children that are made and waited for, and turns that one process gives another.
#ifndef PROCESSES_H
#define PROCESSES_H
#include "guest.h"
#include <sys/prctl.h>

// Forks. What stdio holds back is written first, so that it is not written twice.
static inline pid_t fork_checked(void) {
    CHECK(fflush(NULL) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    return pid;
}

// A child that does this and ends with status 0.
#define CHILD(...)                                                                        \
    ({                                                                                    \
        pid_t child_pid = fork_checked();                                                 \
        if (child_pid == 0) {                                                             \
            __VA_ARGS__;                                                                  \
            CHECK(fflush(NULL) == 0);                                                     \
            _exit(0);                                                                     \
        }                                                                                 \
        child_pid;                                                                        \
    })

// Waits for this child; its status word.
static inline int reap(pid_t pid) {
    int status = -1;
    pid_t found;
    do
        found = waitpid(pid, &status, 0);
    while (found == -1 && errno == EINTR);
    CHECK(found == pid);
    return status;
}

// Waits for this child, which exits; its status.
static inline int exit_of(pid_t pid) {
    int status = reap(pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Waits for a child that must have found all in order.
#define FINE(pid) CHECK(exit_of(pid) == 0)

// One process lets another go on.
typedef struct {
    int ends[2];
} turn;

static inline turn make_turn(void) {
    turn made;
    CHECK(pipe(made.ends) == 0);
    return made;
}

static inline void give(turn *t) { CHECK(write(t->ends[1], "x", 1) == 1); }

static inline void await(turn *t) {
    char byte;
    ssize_t count;
    do
        count = read(t->ends[0], &byte, 1);
    while (count == -1 && errno == EINTR);
    CHECK(count == 1);
}

// Memory that all children share.
static inline void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}
#endif
