// A download client: a request for the whole file and n range requests race; whoever finishes first decides how the file is put
// together. It must never report an incomplete file. The connections are opened in a fixed order.
// Called as jget PORT N
#include "net.h"

enum { SIZE = 12 };
static const char expected[SIZE + 1] = "abcdefghijkl";

static int n, fds[8];
static char whole[SIZE + 1], parts[SIZE + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int parts_done, winner; // 1: the whole file, 2: the parts

static void *get(void *argument) {
    int index = (int)(long)argument; // 0: the whole file
    char request[128], answer[1024];
    int size = SIZE / n, from = (index - 1) * size;
    if (index == 0)
        snprintf(request, sizeof request, "GET whole\n");
    else
        snprintf(request, sizeof request, "GET %d-%d\n", from, from + size - 1);
    send_text(fds[index], request);
    int length = read_all(fds[index], answer, sizeof answer);
    CHECK(length == (index == 0 ? SIZE : size));
    memcpy(index == 0 ? whole : parts + from, answer, length);
    OK(pthread_mutex_lock(&lock));
    if (index == 0 && winner == 0)
        winner = 1;
    if (index > 0 && ++parts_done == n && winner == 0)
        winner = 2;
    OK(pthread_mutex_unlock(&lock));
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    n = atoi(argv[2]);
    pthread_t threads[8];
    for (int i = 0; i <= n; i++)
        fds[i] = connect_to(atoi(argv[1]));
    for (int i = 0; i <= n; i++)
        threads[i] = start(get, (void *)(long)i);
    for (int i = 0; i <= n; i++)
        OK(pthread_join(threads[i], NULL));
    printf("complete %s from %s\n", winner == 1 ? whole : parts, winner == 1 ? "one piece" : "parts");
    CHECK(strcmp(winner == 1 ? whole : parts, expected) == 0);
    return 0;
}
