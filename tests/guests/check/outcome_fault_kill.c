// The process may be killed at any point, which is no crash.
// options: --faults kill
// outcomes: "" "a" "ab"
#include <unistd.h>

int main(void) {
    (void)!write(1, "a", 1);
    (void)!write(1, "b", 1);
    return 0;
}
