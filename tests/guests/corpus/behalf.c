// Accesses that the C library or the kernel makes for one thread, while another thread makes its own. Nothing is asserted: the race is all there is.
#include "corpus.h"
#include <sys/uio.h>

MUTEX(m);
static char text[64] = "abc";
static int numbers[6] = {5, 3, 1, 4, 2, 0};
static volatile int seen;
static int ends[2];

static void enter(void) { if (!bad) LOCK(m); }
static void leave(void) { if (!bad) UNLOCK(m); }

THREAD(reads_text) { enter(), seen = text[1], leave(); return 0; }
THREAD(writes_text) { enter(), text[1] = 'x', leave(); return 0; }
THREAD(adds_up) { enter(); for (int i = 0; i < 6; i++) seen += numbers[i]; leave(); return 0; }

// An array that is sorted while it is read.
static int compare(const void *one, const void *two) { return *(const int *)one - *(const int *)two; }
THREAD(sorts) { enter(), qsort(numbers, 6, sizeof *numbers, compare), leave(); return 0; }
static void sorted(void) { TOGETHER(sorts, adds_up); }

// A string that is printed into another one while it changes.
THREAD(prints) { char line[64]; enter(), snprintf(line, sizeof line, "%s", text), leave(); return 0; }
static void printed(void) { TOGETHER(prints, writes_text); }

// Buffers of system calls.
THREAD(receives) { enter(), (void)!read(ends[0], text, 4), leave(); return 0; }
static void received(void) { (void)!pipe(ends), (void)!write(ends[1], "1234", 4); TOGETHER(receives, reads_text); }
THREAD(sends) {
    struct iovec parts[2] = {{"x", 1}, {text, 3}};
    enter(), (void)!writev(ends[1], parts, 2), leave();
    return 0;
}
static void sent(void) { (void)!pipe(ends); TOGETHER(sends, writes_text); }

// Text that is looked through, and taken for a number.
THREAD(looks_through) { enter(), seen = memchr(text, 'c', 3) != NULL, leave(); return 0; }
static void looked_through(void) { TOGETHER(looks_through, writes_text); }
THREAD(converts) { enter(), seen = atoi(text), leave(); return 0; }
static void converted(void) { strcpy(text, "123"); TOGETHER(converts, writes_text); }

// Bit-fields beside each other are one memory location, bytes are not.
static volatile struct { unsigned one : 4, two : 4; } bits;
static volatile struct { char one, two; } bytes;
THREAD(sets_one) { if (bad) bits.one = 3; else bytes.one = 3; return 0; }
THREAD(sets_two) { if (bad) bits.two = 5; else bytes.two = 5; return 0; }
static void neighbours(void) { TOGETHER(sets_one, sets_two); }

PROGRAMS(P(sorted), P(printed), P(received), P(sent), P(looked_through), P(converted), P(neighbours))
