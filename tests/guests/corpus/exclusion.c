// Mutual exclusion by the program's own means, or by what lets too many in. What is kept apart is a plain counter: that it loses something shows only
// in schedules that switch in the middle of the critical section, so the threads must be parked there.
#include "../corpus.h"

static int x;
static _Atomic int want[2], turn, lock, readers, next, serving, level[3], victim[3];
static int ticket[2];

// Two threads, each once through the critical section.
#define SECTION(name, enters, leaves)                                                                                  \
    THREAD(name##_body) {                                                                                              \
        long i = (long)argument;                                                                                       \
        (void)i;                                                                                                       \
        enters;                                                                                                        \
        x++;                                                                                                           \
        leaves;                                                                                                        \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static void name(void) {                                                                                           \
        TOGETHER(name##_body, name##_body);                                                                            \
        assert(x == 2);                                                                                                \
    }

// The turn is given away before one says that one wants to enter.
static void peterson_enters(long i) {
    if (!bad) want[i] = 1;
    turn = 1 - i;
    want[i] = 1;
    while (want[1 - i] && turn == 1 - i) {}
}
SECTION(peterson, peterson_enters(i), want[i] = 0)

// Whose turn it is enters, whether the other one is in or not.
static void dekker_enters(long i) {
    want[i] = 1;
    while (want[1 - i]) {
        if (turn == i && bad) return;
        if (turn == i) continue;
        want[i] = 0;
        while (turn != i) {}
        want[i] = 1;
    }
}
static void gives_turn(long i) {
    turn = 1 - i;
    want[i] = 0;
}
SECTION(dekker, dekker_enters(i), gives_turn(i))

// Lamport's bakery without the sign that somebody is just choosing a number.
static _Atomic int number[2], choosing[2];
static void bakery_enters(long i) {
    long j = 1 - i;
    if (!bad) choosing[i] = 1;
    number[i] = number[j] + 1;
    choosing[i] = 0;
    while (choosing[j]) {}
    while (number[j] && (number[j] < number[i] || (number[j] == number[i] && j < i))) {}
}
SECTION(bakery, bakery_enters(i), number[i] = 0)

// Looked whether it is free, then taken.
static void flag_enters(void) {
    if (bad) {
        while (lock) {}
        lock = 1;
    } else
        while (atomic_exchange(&lock, 1)) {}
}
SECTION(test_and_set, flag_enters(), lock = 0)

// The next ticket is read and written in two steps.
static void draws_ticket(long i) {
    if (bad) ticket[i] = next, next = ticket[i] + 1;
    else ticket[i] = atomic_fetch_add(&next, 1);
    while (serving < ticket[i]) {}
}
SECTION(drawn_tickets, draws_ticket(i), serving = ticket[i] + 1)

// One who reads and one who writes; the writer looks for readers, the reader only looks before it says that it reads.
static void reads_or_writes(long i) {
    int none = 0;
    if (i == 1) {
        while (!atomic_compare_exchange_strong(&lock, &none, 1)) none = 0;
        while (readers) {}
    } else if (bad) {
        while (lock) {}
        readers = 1;
    } else
        for (readers = 1; lock; readers = 1) {
            readers = 0;
            while (lock) {}
        }
}
SECTION(reader_and_writer, reads_or_writes(i), i ? (lock = 0) : (readers = 0))

// A semaphore with room for two.
static sem_t room;
static void makes_room(void) { sem_init(&room, 0, bad ? 2 : 1); }
SECTION(room_entered, sem_wait(&room), sem_post(&room))
static void room_for_one(void) { makes_room(), room_entered(); }

// A pipe with a byte for each who may enter.
static int tokens[2];
SECTION(token_taken, assert(read(tokens[0], &(char){0}, 1) == 1), assert(write(tokens[1], "", 1) == 1))
static void pipe_of_tokens(void) {
    assert(pipe(tokens) == 0 && write(tokens[1], "ab", bad ? 2 : 1) > 0);
    token_taken();
}

// Three threads and a filter with one level too few.
static void filter_enters(long i) {
    for (int at = 1; at <= (bad ? 1 : 2); at++) {
        level[i] = at;
        victim[at] = (int)i;
        for (int k = 0; k < 3; k++)
            while (k != i && level[k] >= at && victim[at] == i) {}
    }
}
THREAD(filtered) {
    filter_enters((long)argument);
    x++;
    level[(long)argument] = 0;
    return 0;
}
static void filter(void) {
    TOGETHER(filtered, filtered, filtered);
    assert(x == 3);
}

// What is said to be ready is not.
static int told;
THREAD(tells) {
    if (bad) atomic_fetch_add(&next, 1), told = 5;
    else told = 5, atomic_fetch_add(&next, 1);
    atomic_fetch_add(&next, 1);
    return 0;
}
THREAD(listens) {
    while (!next) {}
    assert(told == 5);
    return 0;
}
static void announced(void) { TOGETHER(tells, listens); }

PROGRAMS(P(peterson), P(dekker), P(bakery), P(test_and_set), P(drawn_tickets), P(reader_and_writer), P(room_for_one), P(pipe_of_tokens), P(filter),
         P(announced))
