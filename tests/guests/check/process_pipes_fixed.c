// Two processes take the tokens out of two pipes in the same order.
#include "processes.h"

static void both(int first, int second) {
    char token;
    CHECK(read(first, &token, 1) == 1);
    CHECK(read(second, &token, 1) == 1);
}

int main(void) {
    turn one = make_turn(), two = make_turn();
    give(&one);
    give(&two);
    pid_t pid = CHILD(both(one.ends[0], two.ends[0]); give(&two); give(&one));
    both(one.ends[0], two.ends[0]);
    give(&one);
    give(&two);
    FINE(pid);
}
