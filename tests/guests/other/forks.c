// A second process, which has no model.
#include "guest.h"

int main(void) {
    if (fork() == 0)
        _exit(0);
    wait(NULL);
}
