// rename replaces; RENAME_NOREPLACE refuses and RENAME_EXCHANGE swaps; directories move with what is in them.
#include "guest.h"

static void put(const char *name, const char *text) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    write_all(fd, text);
    CHECK(close(fd) == 0);
}

static void show(const char *name) {
    char text[32] = {0};
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) >= 0 && close(fd) == 0);
    printf("%s: %s\n", name, text);
}

int main(void) {
    put("a", "first");
    put("b", "second");
    CHECK(rename("a", "b") == 0);
    FAILS(access("a", F_OK), ENOENT);
    show("b");
    put("c", "third");
    FAILS(renameat2(AT_FDCWD, "c", AT_FDCWD, "b", RENAME_NOREPLACE), EEXIST);
    if (renameat2(AT_FDCWD, "c", AT_FDCWD, "b", RENAME_EXCHANGE) == -1) {
        CHECK(errno == EINVAL);
        CHECK(rename("b", "t") == 0 && rename("c", "b") == 0 && rename("t", "c") == 0);
    }
    show("b");
    show("c");
    CHECK(mkdir("dir", 0755) == 0);
    put("dir/inside", "moved along");
    CHECK(rename("dir", "moved") == 0);
    show("moved/inside");
    FAILS(rename("missing", "x"), ENOENT);
    FAILS(rename("b", "moved"), EISDIR);
    FAILS(rename("moved", "b"), ENOTDIR);
    FAILS(rename("moved", "moved/below"), EINVAL);
}
