// A system call number that does not exist is ENOSYS, not the end of the program.
#include "guest.h"

int main(void) {
    FAILS(syscall(100000), ENOSYS);
    puts("ENOSYS");
}
