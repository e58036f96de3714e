// A thread for each client that is let in; whoever comes while another one is inside is sent away. Inside one stays for a while.
// `+` is a client that was let in, `-` one that was not.
// Called as doorman PORT
#include "net.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int inside;

static void *serve(void *client) {
    usleep(2000);
    pthread_mutex_lock(&lock);
    inside = 0;
    pthread_mutex_unlock(&lock);
    close((int)(long)client);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    int listening = listen_at(atoi(argv[1])), started = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        char text[64];
        int fd = accept(listening, NULL, NULL);
        int got = read(fd, text, sizeof text - 1);
        CHECK(got > 0);
        text[got - 1] = 0;
        pthread_mutex_lock(&lock);
        int is_free = !inside;
        inside = 1;
        pthread_mutex_unlock(&lock);
        printf("%s%c", text, is_free ? '+' : '-');
        if (is_free)
            pthread_create(&threads[started++], NULL, serve, (void *)(long)fd);
        else
            close(fd);
    }
    while (started > 0)
        pthread_join(threads[--started], NULL);
    puts("");
    return 0;
}
