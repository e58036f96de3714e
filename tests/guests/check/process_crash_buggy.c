// The second process uses what it never got: it crashes, and the first one does not look.
// expect: crash
// min-preemptions: 0
#include "processes.h"

static int lengthen(int times, const char *text) {
    return times ? 1 + lengthen(times - 1, text) : text[0];
}

static int work(char order) {
    return lengthen(order - '0', order == '2' ? NULL : "text");
}

int main(void) {
    turn go = make_turn();
    pid_t pid = CHILD(char order; CHECK(read(go.ends[0], &order, 1) == 1); work(order));
    CHECK(write(go.ends[1], "2", 1) == 1);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
}
