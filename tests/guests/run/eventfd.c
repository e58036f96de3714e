// How eventfd behaves: the counter adds up and is read at once, or one by one in semaphore mode; EAGAIN and blocking.
#include "guest.h"
#include <sys/eventfd.h>

static int counter;

static void *adder(void *argument) {
    for (int i = 1; i <= 4; i++)
        CHECK(eventfd_write(counter, i) == 0);
    return argument;
}

int main(void) {
    eventfd_t value, sum = 0;
    CHECK((counter = eventfd(0, 0)) >= 0);
    pthread_t thread = start(adder, NULL);
    while (sum < 10) {
        CHECK(eventfd_read(counter, &value) == 0 && value > 0);
        sum += value;
    }
    join(thread);
    printf("sum %lu\n", (unsigned long)sum);
    int semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK);
    for (int i = 0; i < 3; i++)
        CHECK(eventfd_read(semaphore, &value) == 0 && value == 1);
    FAILS(eventfd_read(semaphore, &value), EAGAIN);
    CHECK(eventfd_write(semaphore, 0xfffffffffffffffe) == 0);
    FAILS(eventfd_write(semaphore, 1), EAGAIN);
    FAILS(write(semaphore, &value, 4), EINVAL);
    FAILS(read(semaphore, &value, 4), EINVAL);
    uint64_t most = UINT64_MAX;
    FAILS(write(semaphore, &most, 8), EINVAL);
    puts("semaphore mode");
}
