// Descriptors inherited share offset and status flags; the flags of the descriptor itself are its own.
#include "processes.h"

int main(void) {
    char text[8] = {0};
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(fd >= 0);
    write_all(fd, "0123456789");
    CHECK(lseek(fd, 2, SEEK_SET) == 2);
    FINE(CHILD(CHECK(read(fd, text, 3) == 3 && memcmp(text, "234", 3) == 0); CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
               CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)));
    CHECK(lseek(fd, 0, SEEK_CUR) == 5);
    CHECK(fcntl(fd, F_GETFL) & O_APPEND);
    CHECK(fcntl(fd, F_GETFD) == 0);
    CHECK(read(fd, text, 2) == 2 && memcmp(text, "56", 2) == 0);
    // Opened again, it is another description.
    int other = open("file", O_RDONLY);
    FINE(CHILD(CHECK(lseek(other, 7, SEEK_SET) == 7); int own = open("file", O_RDONLY); CHECK(lseek(own, 0, SEEK_CUR) == 0)));
    CHECK(lseek(other, 0, SEEK_CUR) == 7 && lseek(fd, 0, SEEK_CUR) == 7);
    FINE(CHILD(write_all(fd, "child;")));
    write_all(fd, "parent\n");
    CHECK(lseek(fd, 0, SEEK_END) == 23);
    puts("one offset");
}
