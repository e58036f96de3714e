// Two threads call a library of the program's own, and what they print is in a file that is mapped.
// Called as uses_library LIBRARY DATA
// build: -ldl
#include "guest.h"
#include <dlfcn.h>

static int (*next)(void);
static const char *letters;

static void *body(void *argument) {
    int mine = next();
    printf("%d %c\n", mine, letters[mine % 10]);
    return argument;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library);
    *(void **)&next = dlsym(library, "next");
    int fd = open(argv[2], O_RDONLY);
    CHECK(next && fd >= 0);
    letters = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(letters != MAP_FAILED && close(fd) == 0);
    pthread_t one = start(body, NULL), two = start(body, NULL);
    join(one);
    join(two);
    return 0;
}
