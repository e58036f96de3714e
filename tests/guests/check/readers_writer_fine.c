// Two readers and a writer on a reader-writer lock: nobody starves, nothing is torn, in any schedule.
// outcomes: "written 1\n"
#include "guest.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int left, right;

static void *reader(void *argument) {
    pthread_rwlock_rdlock(&lock);
    if (left != right)
        abort();
    pthread_rwlock_unlock(&lock);
    return argument;
}

static void *writer(void *argument) {
    pthread_rwlock_wrlock(&lock);
    left++;
    right++;
    pthread_rwlock_unlock(&lock);
    return argument;
}

int main(void) {
    pthread_t one = start(reader, NULL), two = start(reader, NULL), three = start(writer, NULL);
    join(one);
    join(two);
    join(three);
    printf("written %d\n", left);
}
