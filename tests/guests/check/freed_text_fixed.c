// A text is printed and freed under the same lock.
// options: --races
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;

static void *print(void *argument) {
    pthread_mutex_lock(&lock);
    if (text)
        puts(text);
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *forget(void *argument) {
    pthread_mutex_lock(&lock);
    char *mine = text;
    text = NULL;
    pthread_mutex_unlock(&lock);
    free(mine);
    return argument;
}

int main(void) {
    text = strdup("hello");
    pthread_t one = start(print, NULL), two = start(forget, NULL);
    join(one);
    join(two);
}
