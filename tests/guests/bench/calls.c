// Makes so many calls that no other thread can see, then one that others could, and so on for ever.
#include "guest.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    for (long calls = atol(argv[1]);;) {
        for (long i = 0; i < calls; i++)
            syscall(SYS_getppid);
        sched_yield();
    }
}
