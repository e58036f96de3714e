// The static musl build: its own thread, lock and stdio code, not glibc's.
// build: musl
#include "guest.h"
#include "turns.h"

int main(void) { take_turns(); }
