// Random system calls, one per step: what the parts share. See random_calls.c.
#ifndef CALLS_H
#define CALLS_H
#include "guest.h"
#include <stdbool.h>

// How an argument is made.
enum kind {
    NOTHING,  // zero
    FD,       // a descriptor, open or not
    PLACE,      // a descriptor for the *at calls
    PATH,     // a path, or no proper pointer
    OUT,      // memory that the call may write
    IN,       // memory that the call may read
    SIZE,     // a length of memory
    OFFSET,   // a position in a file
    IOV,      // an array of pieces of memory
    COUNT,    // of such pieces
    ARENA,    // an address for calls that change mappings
    LENGTH,   // a length of mappings
    TEXT,     // a name of an attribute
    EXACT,    // one of the values
    ONE_OF,   // of the values, rarely another number
    SOME_OF,  // several of the values combined, rarely another bit
};

struct argument {
    enum kind kind;
    const long *values;
    int count;
};

#define VALUES(...) (const long[]){__VA_ARGS__}, sizeof((const long[]){__VA_ARGS__}) / sizeof(long)
#define ONE(...) {ONE_OF, VALUES(__VA_ARGS__)}
#define ONLY(...) {EXACT, VALUES(__VA_ARGS__)}
#define SOME(...) {SOME_OF, VALUES(__VA_ARGS__)}
#define A(kind) {kind, NULL, 0}

struct step;
struct call {
    const char *name;
    long number;
    int weight;
    struct argument arguments[6];
    // Makes of what the call wrote something that is the same in every run; NULL: nothing needs to be done.
    void (*normalise)(struct step *step);
    // Puts something better than random bytes where an input argument points to.
    void (*fill)(struct step *step);
};

// One call with its arguments and its result.
struct step {
    const struct call *call;
    uint64_t random;
    long arguments[6];
    long result;
    char shown[6][48];
    // What of the output is shown in words.
    char told[160];
};

extern const struct call calls[];
extern const int call_count;

enum { BUFFER = 8192, PIECES = 4, MAPPING_PAGES = 16, FILL = 0xA5, DESCRIPTORS = 40, LOG = 900, HOME = 901 };
// Each is followed by a page that cannot be touched.
extern unsigned char *output, *input;
extern unsigned char *arena;

uint64_t draw(struct step *step);
static inline uint64_t below(struct step *step, uint64_t n) { return draw(step) % n; }
// The memory that an argument points to, if the call can have written or read `size` bytes there.
unsigned char *at(struct step *step, int argument, size_t size);
void make_descriptors(void);
void make_files(void);
#endif
