// Reading a directory shows what was created, renamed and removed, once each, with its type; rewinddir starts again.
#include "guest.h"
#include <dirent.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

static void list(DIR *directory) {
    char *names[300];
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        CHECK(count < 300 && asprintf(&names[count++], "%s %d", entry->d_name, entry->d_type) > 0);
    }
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++)
        if (count < 20 || i % 50 == 0)
            printf("  %s\n", names[i]);
    printf("%d entries\n", count);
}

int main(void) {
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/sub", 0755) == 0 && symlink("x", "d/link") == 0);
    CHECK(close(open("d/file", O_CREAT | O_WRONLY, 0644)) == 0 && close(open("d/gone", O_CREAT | O_WRONLY, 0644)) == 0);
    DIR *directory = opendir("d");
    CHECK(directory);
    list(directory);
    CHECK(unlink("d/gone") == 0 && rename("d/file", "d/renamed") == 0);
    rewinddir(directory);
    list(directory);
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "d/many-%03d", i);
        CHECK(close(open(name, O_CREAT | O_WRONLY, 0644)) == 0);
    }
    rewinddir(directory);
    list(directory);
    CHECK(closedir(directory) == 0 && opendir("missing") == NULL);
}
