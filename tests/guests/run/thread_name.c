// Each thread has its own name, settable by itself and by others, at most 15 bytes.
#include "guest.h"
#include <sys/prctl.h>

static sem_t named, asked;

static void *body(void *argument) {
    OK(pthread_setname_np(pthread_self(), "worker"));
    CHECK(sem_post(&named) == 0);
    CHECK(sem_wait(&asked) == 0);
    char name[16];
    CHECK(prctl(PR_GET_NAME, name) == 0);
    printf("worker is now %s\n", name);
    return argument;
}

int main(void) {
    char name[16];
    CHECK(sem_init(&named, 0, 0) == 0 && sem_init(&asked, 0, 0) == 0);
    OK(pthread_setname_np(pthread_self(), "main thread"));
    pthread_t thread = start(body, NULL);
    CHECK(sem_wait(&named) == 0);
    OK(pthread_getname_np(thread, name, sizeof name));
    printf("other: %s\n", name);
    OK(pthread_getname_np(pthread_self(), name, sizeof name));
    printf("own: %s\n", name);
    OK(pthread_setname_np(thread, "renamed"));
    CHECK(sem_post(&asked) == 0);
    CHECK(pthread_setname_np(pthread_self(), "a name that is too long") == ERANGE);
    join(thread);
}
