// The static glibc build: threads, mutex, condition variable and thread-local storage without a dynamic loader.
// build: -static
#include "guest.h"
#include "turns.h"

int main(void) { take_turns(); }
