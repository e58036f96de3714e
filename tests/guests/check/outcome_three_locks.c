// Three threads append a letter each under one lock: every order.
// outcomes: "abc" "acb" "bac" "bca" "cab" "cba"
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[4];
static int length;

static void *append(void *argument) {
    pthread_mutex_lock(&lock);
    text[length++] = *(char *)argument;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    pthread_t one = start(append, "a"), two = start(append, "b"), three = start(append, "c");
    join(one);
    join(two);
    join(three);
    fputs(text, stdout);
}
