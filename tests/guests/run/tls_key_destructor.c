// pthread_key destructors run at thread end with the thread's value, again if they set a new one.
#include "guest.h"

static pthread_key_t key;
static atomic_int destroyed;

static void destroy(void *value) {
    atomic_fetch_add(&destroyed, 1);
    intptr_t left = (intptr_t)value - 1;
    if (left > 0)
        OK(pthread_setspecific(key, (void *)left));
}

static void *body(void *argument) {
    CHECK(pthread_getspecific(key) == NULL);
    OK(pthread_setspecific(key, argument));
    return pthread_getspecific(key);
}

int main(void) {
    OK(pthread_key_create(&key, destroy));
    join(start(body, (void *)1));
    printf("after one value: %d\n", destroyed);
    join(start(body, (void *)3));
    printf("after a value set three times: %d\n", destroyed);
    OK(pthread_key_delete(key));
}
