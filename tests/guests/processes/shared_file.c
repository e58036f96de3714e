// A file mapped shared: stores are seen by other processes and in the file; mapped private, they are not.
#include "processes.h"

int main(void) {
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(ftruncate(fd, 8192) == 0);
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(shared != MAP_FAILED && own != MAP_FAILED);
    FINE(CHILD(strcpy(shared, "stored"); strcpy(own, "private"); strcpy(shared + 5000, "second page")));
    char text[16];
    CHECK(pread(fd, text, 7, 0) == 7 && strcmp(text, "stored") == 0);
    printf("%s, %s, private %s\n", shared, shared + 5000, strcmp(own, "private") ? "apart" : "shared");
    // Mapped anew, at another address; written by a call.
    FINE(CHILD(CHECK(munmap(shared, 8192) == 0); char *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096); CHECK(again != MAP_FAILED);
               strcpy(again + 904, "mapped anew"); CHECK(pwrite(fd, "written", 8, 100) == 8)));
    printf("%s, %s\n", shared + 5000, shared + 100);
    CHECK(munmap(shared, 8192) == 0);
}
