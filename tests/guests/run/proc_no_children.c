// wait with no children is ECHILD.
#include "guest.h"

int main(void) {
    int status;
    FAILS(wait(&status), ECHILD);
    FAILS(waitpid(-1, &status, WNOHANG), ECHILD);
    puts("no children");
}
