// /proc/PID/maps of one's own process and of a child: memory that is shared is shown as such, with its name.
#include "processes.h"
#include <sys/mman.h>

static char *lone, *common;

static void look(const char *path) {
    FILE *file = fopen(path, "r");
    CHECK(file);
    char line[500], rights[8];
    unsigned long start, end, offset;
    int heap = 0, stack = 0;
    while (fgets(line, sizeof line, file)) {
        CHECK(sscanf(line, "%lx-%lx %7s %lx", &start, &end, rights, &offset) == 4);
        if (start <= (unsigned long)lone && (unsigned long)lone < end)
            printf("lone %s\n", rights);
        if (start == (unsigned long)common)
            printf("common %s, %lu bytes from %lu, %s", rights, end - start, offset, strchr(line, '/'));
        heap |= strstr(line, "[heap]") != NULL;
        stack |= strstr(line, "[stack]") != NULL;
    }
    CHECK(fclose(file) == 0);
    printf("heap %d, stack %d\n", heap, stack);
}

int main(void) {
    CHECK(malloc(10));
    lone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = memfd_create("name", 0);
    CHECK(fd >= 0 && ftruncate(fd, 12288) == 0);
    common = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    CHECK(lone != MAP_FAILED && common != MAP_FAILED);
    look("/proc/self/maps");
    turn ready = make_turn(), go = make_turn();
    pid_t pid = CHILD(CHECK(munmap(lone, 4096) == 0); give(&ready); await(&go));
    await(&ready);
    char path[50];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    look(path);
    give(&go);
    FINE(pid);
}
