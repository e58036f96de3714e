// How open behaves: O_EXCL, O_CREAT with the umask, O_DIRECTORY, O_NOFOLLOW, O_PATH, and the errors of each.
#include "guest.h"

int main(void) {
    struct stat status;
    umask(027);
    CHECK(umask(027) == 027);
    int fd = open("new", O_WRONLY | O_CREAT | O_EXCL, 0666);
    CHECK(fd >= 0 && fstat(fd, &status) == 0);
    printf("mode %o\n", status.st_mode & 07777);
    FAILS(open("new", O_WRONLY | O_CREAT | O_EXCL, 0666), EEXIST);
    FAILS(open("missing", O_RDONLY), ENOENT);
    FAILS(open("new", O_RDONLY | O_DIRECTORY), ENOTDIR);
    FAILS(open(".", O_WRONLY), EISDIR);
    FAILS(open("new/below", O_RDONLY), ENOTDIR);
    FAILS(open("", O_RDONLY), ENOENT);
    FAILS(open((char *)8, O_RDONLY), EFAULT);
    CHECK(symlink("new", "link") == 0);
    FAILS(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);
    int path = open("link", O_PATH | O_NOFOLLOW);
    CHECK(path >= 0 && fstat(path, &status) == 0 && S_ISLNK(status.st_mode));
    FAILS(read(path, &status, 1), EBADF);
    CHECK(symlink("dangling target", "dangling") == 0);
    FAILS(open("dangling", O_RDONLY), ENOENT);
    char name[NAME_MAX + 2];
    memset(name, 'n', sizeof name - 1), name[sizeof name - 1] = 0;
    FAILS(open(name, O_RDONLY), ENAMETOOLONG);
    CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY);
    puts("open flags");
}
