// sendfile to a pipe and copy_file_range between files, with and without explicit offsets.
#include "guest.h"
#include <sys/sendfile.h>

int main(void) {
    char text[32] = {0};
    int from = open("from", O_RDWR | O_CREAT, 0644), to = open("to", O_RDWR | O_CREAT, 0644), ends[2];
    write_all(from, "the quick brown fox");
    CHECK(pipe(ends) == 0);
    off_t offset = 4;
    CHECK(sendfile(ends[1], from, &offset, 5) == 5 && offset == 9 && lseek(from, 0, SEEK_CUR) == 19);
    CHECK(read(ends[0], text, sizeof text) == 5);
    puts(text);
    CHECK(lseek(from, 10, SEEK_SET) == 10 && sendfile(to, from, NULL, 100) == 9 && lseek(from, 0, SEEK_CUR) == 19);
    CHECK(sendfile(to, from, NULL, 10) == 0);
    loff_t in = 0, out = 9;
    ssize_t copied = copy_file_range(from, &in, to, &out, 4, 0);
    if (copied == -1) {
        CHECK(errno == ENOSYS || errno == EXDEV || errno == EINVAL);
        CHECK(pwrite(to, "the ", 4, 9) == 4);
    } else {
        CHECK(copied == 4 && in == 4 && out == 13);
    }
    memset(text, 0, sizeof text);
    CHECK(pread(to, text, sizeof text, 0) == 13);
    printf("[%s]\n", text);
}
