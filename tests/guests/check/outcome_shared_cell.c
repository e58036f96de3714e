// Two processes add to a cell of shared memory, in steps that are not atomic.
// outcomes: "1" "2"
#include "processes.h"

int main(void) {
    atomic_int *cell = shared_memory(4096);
    pid_t pid = CHILD(int seen = atomic_load(cell); atomic_store(cell, seen + 1));
    int seen = atomic_load(cell);
    atomic_store(cell, seen + 1);
    FINE(pid);
    write_all(1, atomic_load(cell) == 1 ? "1" : "2");
}
