// set_tid_address gives the thread id; the word that pthread_join waits on is cleared, so ids are seen to differ.
#include "guest.h"

static void *body(void *argument) {
    (void)argument;
    return (void *)(intptr_t)syscall(SYS_gettid);
}

int main(void) {
    long pid = getpid(), tid = syscall(SYS_gettid);
    pthread_t one = start(body, NULL), two = start(body, NULL);
    long tid_one = (intptr_t)join(one), tid_two = (intptr_t)join(two);
    CHECK(pid == tid && tid_one != pid && tid_two != pid && tid_one > 0 && tid_two > 0);
    CHECK(tid_one != tid_two);
    CHECK(getppid() != pid && getppid() >= 0);
    CHECK(getpgid(0) == getpgrp() && getsid(0) >= 0);
    FAILS(syscall(SYS_tgkill, (int)pid, (int)tid_one, 0), ESRCH);
    puts("ids are related as they should be");
}
