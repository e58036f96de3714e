// Calls about addresses where nothing is mapped, and then something of the program's own there. Among them are the places where a supervisor keeps
// what it needs: to the program they are like any other.
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#define PAGE 4096UL
extern char __ehdr_start[];

static sigjmp_buf back;
static void on_fault(int signo) { siglongjmp(back, signo); }

static int store(volatile char *at) {
    int signo = sigsetjmp(back, 1);
    if (signo == 0)
        *at = 1;
    return signo;
}

static void result(const char *what, long value) {
    printf("  %s: %s\n", what, value == -1 ? strerrorname_np(errno) : "fine");
}

static int is_listed(uintptr_t at) {
    FILE *maps = fopen("/proc/self/maps", "r");
    uintptr_t start, end;
    int found = 0;
    while (fscanf(maps, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &start, &end) == 2)
        found |= start <= at && at < end;
    fclose(maps);
    return found;
}

static void probe(const char *name, char *at) {
    int null = open("/dev/zero", O_RDONLY), pipes[2];
    unsigned char resident;
    CHECK(pipe(pipes) == 0);
    printf("%s\n", name);
    printf("  store: %s\n", store(at) == SIGSEGV ? "SIGSEGV" : "done");
    printf("  listed: %d\n", is_listed((uintptr_t)at));
    result("mprotect", mprotect(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
    result("madvise", madvise(at, PAGE, MADV_DONTNEED));
    result("mincore", mincore(at, PAGE, &resident));
    result("mremap", (long)mremap(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    result("write", write(pipes[1], at, 1));
    result("read", read(null, at, 1));
    result("munmap", munmap(at, PAGE));
    printf("  store: %s\n", store(at) == SIGSEGV ? "SIGSEGV" : "done");
    close(null), close(pipes[0]), close(pipes[1]);
}

static void settle(const char *name, char *at, int how) {
    char *got = mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0);
    printf("%s: %s, %s\n", name, got == at ? "mapped" : "not mapped", store(at) == 0 ? "stored" : "faulted");
    printf("  listed: %d\n", is_listed((uintptr_t)at));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *count(void *arg) {
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return arg;
}

static void work(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d\n", counter);
}

int main(void) {
    signal(SIGSEGV, on_fault);
    char *far = (char *)0x6fff00000000, *high = (char *)0x7fffe0000000;
    char *below = (char *)((uintptr_t)__ehdr_start / PAGE * PAGE) - 0x101000;
    probe("far", far);
    probe("near the libraries", high);
    probe("below the program", below);
    work();
    settle("far", far, MAP_FIXED_NOREPLACE);
    settle("near the libraries", high, MAP_FIXED);
    settle("below the program", below, MAP_FIXED_NOREPLACE);
    work();
    // Over all of it, its own and what was never there.
    result("munmap", munmap(high - 16 * PAGE, 1 << 20));
    result("munmap", munmap(below, 0x100000));
    work();
    return 0;
}
