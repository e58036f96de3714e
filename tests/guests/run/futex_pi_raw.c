// Raw FUTEX_LOCK_PI, TRYLOCK_PI and UNLOCK_PI: the kernel writes the owner's thread id; EDEADLK and EPERM.
#include "guest.h"
#include <linux/futex.h>

static atomic_uint word;
static sem_t held, release;

static long pi(int op) { return syscall(SYS_futex, &word, op | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0); }

static void *body(void *argument) {
    CHECK(pi(FUTEX_LOCK_PI) == 0);
    CHECK((word & FUTEX_TID_MASK) == (unsigned)syscall(SYS_gettid));
    CHECK(sem_post(&held) == 0 && sem_wait(&release) == 0);
    CHECK(pi(FUTEX_UNLOCK_PI) == 0);
    return argument;
}

int main(void) {
    CHECK(sem_init(&held, 0, 0) == 0 && sem_init(&release, 0, 0) == 0);
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&held) == 0);
    FAILS(pi(FUTEX_TRYLOCK_PI), EAGAIN);
    FAILS(pi(FUTEX_UNLOCK_PI), EPERM);
    CHECK(sem_post(&release) == 0);
    CHECK(pi(FUTEX_LOCK_PI) == 0);
    CHECK((word & FUTEX_TID_MASK) == (unsigned)getpid());
    FAILS(pi(FUTEX_LOCK_PI), EDEADLK);
    CHECK(pi(FUTEX_UNLOCK_PI) == 0 && word == 0);
    join(thread);
    puts("priority-inheriting futex handed over");
}
