// A static program forks and runs another one.
// build: -static
#include "processes.h"

int main(int argc, char **argv) {
    if (argc > 1) {
        puts("run again");
        return 3;
    }
    printf("%d\n", exit_of(CHILD(execl("/proc/self/exe", argv[0], "x", NULL))));
    printf("%d\n", exit_of(CHILD(_exit(4))));
}
