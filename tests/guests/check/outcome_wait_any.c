// Two children end in any order; wait takes the first by number if both have.
// outcomes: "12" "21"
#include "processes.h"

int main(void) {
    int status;
    CHILD(_exit(1));
    CHILD(_exit(2));
    for (int i = 0; i < 2; i++) {
        CHECK(wait(&status) > 0);
        write_all(1, WEXITSTATUS(status) == 1 ? "1" : "2");
    }
}
