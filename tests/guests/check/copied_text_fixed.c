// A text is copied under the lock that its writer has, and a buffer is handed over through a pipe.
// options: --races
#include "guest.h"
#include <assert.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[64] = "a", message[8];
static int ends[2];

static void *write_text(void *argument) {
    pthread_mutex_lock(&lock);
    memcpy(text, argument, strlen(argument) + 1);
    pthread_mutex_unlock(&lock);
    memset(message, 'x', sizeof message);
    CHECK(write(ends[1], "", 1) == 1);
    return NULL;
}

int main(void) {
    CHECK(pipe(ends) == 0);
    pthread_t thread = start(write_text, "another text");
    char copy[64], byte;
    pthread_mutex_lock(&lock);
    strcpy(copy, text);
    pthread_mutex_unlock(&lock);
    CHECK(read(ends[0], &byte, 1) == 1);
    assert(copy[0] == 'a' && message[7] == 'x');
    join(thread);
}
