// flock belongs to the open description: inherited it is the same lock, opened anew it is another one; the end of its last holder lets it go.
#include "processes.h"
#include <sys/file.h>

int main(void) {
    turn go = make_turn(), ready = make_turn();
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(flock(fd, LOCK_EX) == 0);
    FINE(CHILD(CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0); int own = open("file", O_RDWR);
               FAILS(flock(own, LOCK_SH | LOCK_NB), EWOULDBLOCK)));
    // An inherited lock that a child lets go is gone.
    FINE(CHILD(CHECK(flock(fd, LOCK_UN) == 0)));
    FINE(CHILD(int own = open("file", O_RDWR); CHECK(flock(own, LOCK_EX | LOCK_NB) == 0)));
    pid_t pid = CHILD(int own = open("file", O_RDWR); CHECK(flock(own, LOCK_EX) == 0); give(&ready); await(&go);
                      puts("child lets go"));
    await(&ready);
    FAILS(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    give(&go);
    CHECK(flock(fd, LOCK_EX) == 0);
    puts("parent has it");
    FINE(pid);
    CHECK(flock(fd, LOCK_SH) == 0);
    FINE(CHILD(int own = open("file", O_RDWR); CHECK(flock(own, LOCK_SH | LOCK_NB) == 0)));
}
