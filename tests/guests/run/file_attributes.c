// Extended attributes of users, and files that exist in memory only and are never executed.
#include "guest.h"
#include <sys/xattr.h>

#define EXEC_SEAL 0x20
#define NEVER_EXECUTED 0x8
#define EXECUTED 0x10

int main(void) {
    char value[16], list[32];
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    FAILS(getxattr("file", "user.a", value, sizeof value), ENODATA);
    FAILS(setxattr("file", "user.a", "x", 1, XATTR_REPLACE), ENODATA);
    if (setxattr("file", "user.a", "one", 3, XATTR_CREATE) == -1 && errno == EOPNOTSUPP)
        return 0; // Not all file systems have them.
    FAILS(setxattr("file", "user.a", "two", 3, XATTR_CREATE), EEXIST);
    CHECK(fsetxattr(fd, "user.bc", "", 0, 0) == 0);
    CHECK(getxattr("file", "user.a", NULL, 0) == 3);
    FAILS(getxattr("file", "user.a", value, 2), ERANGE);
    CHECK(fgetxattr(fd, "user.a", value, sizeof value) == 3 && memcmp(value, "one", 3) == 0);
    CHECK(listxattr("file", list, sizeof list) == 7 + 8);
    CHECK(rename("file", "moved") == 0);
    CHECK(getxattr("moved", "user.bc", value, sizeof value) == 0);
    CHECK(removexattr("moved", "user.a") == 0);
    FAILS(removexattr("moved", "user.a"), ENODATA);
    CHECK(flistxattr(fd, list, sizeof list) == 8);

    struct stat seen;
    int plain = memfd_create("plain", MFD_ALLOW_SEALING), never = memfd_create("never", NEVER_EXECUTED);
    if (never == -1)
        return 0; // Linux 6.3.
    FAILS(memfd_create("both", NEVER_EXECUTED | EXECUTED), EINVAL);
    CHECK(fstat(never, &seen) == 0 && (seen.st_mode & 0777) == 0666);
    CHECK(fcntl(never, F_GET_SEALS) == EXEC_SEAL);
    FAILS(fchmod(never, 0700), EPERM);
    CHECK(fchmod(never, 0600) == 0);
    CHECK(fcntl(plain, F_ADD_SEALS, EXEC_SEAL) == 0);
    FAILS(write(plain, "x", 1), EPERM);
    FAILS(open(".", (O_TMPFILE & ~O_DIRECTORY) | O_RDWR, 0600), EINVAL);
    puts("as given");
    return 0;
}
