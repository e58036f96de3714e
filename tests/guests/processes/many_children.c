// Sixty processes at once.
#include "processes.h"

int main(void) {
    enum { COUNT = 60 };
    pid_t pids[COUNT];
    int go[2], sum = 0;
    CHECK(pipe(go) == 0);
    for (int i = 0; i < COUNT; i++)
        pids[i] = CHILD(char byte; CHECK(close(go[1]) == 0); CHECK(read(go[0], &byte, 1) == 0); _exit(i));
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            CHECK(pids[i] != pids[j]);
    CHECK(close(go[1]) == 0);
    for (int i = 0; i < COUNT; i++)
        sum += exit_of(pids[i]);
    printf("%d\n", sum);
}
