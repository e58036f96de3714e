// The C11 thread interface: thrd, mtx, cnd, tss and call_once.
#include "guest.h"
#include <threads.h>

static mtx_t lock;
static cnd_t changed;
static int turn;
static once_flag once = ONCE_FLAG_INIT;
static tss_t key;

static void hello(void) { puts("once"); }

static int player(void *argument) {
    int me = (int)(intptr_t)argument;
    call_once(&once, hello);
    CHECK(tss_set(key, argument) == thrd_success);
    for (int round = 0; round < 3; round++) {
        mtx_lock(&lock);
        while (turn % 2 != me)
            cnd_wait(&changed, &lock);
        printf("player %d round %d\n", (int)(intptr_t)tss_get(key), round);
        turn++;
        cnd_broadcast(&changed);
        mtx_unlock(&lock);
    }
    return me + 10;
}

int main(void) {
    thrd_t threads[2];
    CHECK(mtx_init(&lock, mtx_plain) == thrd_success && cnd_init(&changed) == thrd_success);
    CHECK(tss_create(&key, NULL) == thrd_success);
    for (intptr_t i = 0; i < 2; i++)
        CHECK(thrd_create(&threads[i], player, (void *)i) == thrd_success);
    for (int i = 0; i < 2; i++) {
        int result;
        CHECK(thrd_join(threads[i], &result) == thrd_success && result == i + 10);
    }
    thrd_yield();
    puts("done");
}
