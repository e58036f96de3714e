// A condition variable in shared memory: a queue between processes.
#include "processes.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int items[2], count, done;
};

int main(void) {
    struct queue *queue = shared_memory(sizeof *queue);
    pthread_mutexattr_t lock;
    pthread_condattr_t condition;
    OK(pthread_mutexattr_init(&lock));
    OK(pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&queue->lock, &lock));
    OK(pthread_condattr_init(&condition));
    OK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
    OK(pthread_cond_init(&queue->changed, &condition));
    pid_t pid = fork_checked();
    if (pid == 0) {
        for (int i = 1; i <= 8; i++) {
            OK(pthread_mutex_lock(&queue->lock));
            while (queue->count == 2)
                OK(pthread_cond_wait(&queue->changed, &queue->lock));
            queue->items[queue->count++] = i;
            OK(pthread_cond_broadcast(&queue->changed));
            OK(pthread_mutex_unlock(&queue->lock));
        }
        _exit(0);
    }
    int sum = 0;
    for (int i = 0; i < 8; i++) {
        OK(pthread_mutex_lock(&queue->lock));
        while (queue->count == 0)
            OK(pthread_cond_wait(&queue->changed, &queue->lock));
        sum += queue->items[--queue->count];
        OK(pthread_cond_signal(&queue->changed));
        OK(pthread_mutex_unlock(&queue->lock));
    }
    FINE(pid);
    printf("%d\n", sum);
}
