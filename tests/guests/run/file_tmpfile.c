// A nameless file (O_TMPFILE, or memfd) can be written and read, and a temporary name is unique.
#include "guest.h"

int main(void) {
    char text[16] = {0}, name[] = "tmp-XXXXXX", other[] = "tmp-XXXXXX";
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0 || errno == EOPNOTSUPP || errno == EISDIR);
    if (fd >= 0) {
        write_all(fd, "nameless");
        CHECK(pread(fd, text, 16, 0) == 8);
    }
    int memory = memfd_create("memory", MFD_CLOEXEC);
    if (memory >= 0) {
        write_all(memory, "in memory");
        CHECK(pread(memory, text, 16, 0) == 9 && ftruncate(memory, 2) == 0 && lseek(memory, 0, SEEK_END) == 2);
    } else {
        CHECK(errno == ENOSYS);
    }
    CHECK(mkstemp(name) >= 0 && mkstemp(other) >= 0 && strcmp(name, other) != 0);
    CHECK(unlink(name) == 0 && unlink(other) == 0);
    FILE *stream = tmpfile();
    CHECK(stream && fprintf(stream, "%d %s", 42, "words") == 8);
    rewind(stream);
    int number;
    CHECK(fscanf(stream, "%d", &number) == 1);
    printf("number %d\n", number);
}
