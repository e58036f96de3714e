// A write to a pipe may take less than it is given: once, by the budget, of two.
// options: --faults short-write
// outcomes: "33" "13" "31"
#include <assert.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int ends[2];
    assert(pipe(ends) == 0);
    int first = (int)write(ends[1], "abc", 3);
    int second = (int)write(ends[1], "def", 3);
    printf("%d%d", first, second);
    return 0;
}
