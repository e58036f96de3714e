// A file that is mapped shared grows and shrinks under its mappings, whatever their protection: what is written shows, what is stored
// reaches the file, and beyond the end there is SIGBUS, as long as it is beyond the end.
#include "guest.h"

#define PAGE 4096

static sigjmp_buf back;
static void *volatile fault;

static void handler(int number, siginfo_t *info, void *context) {
    CHECK(context && (number == SIGBUS ? info->si_code == BUS_ADRERR : info->si_code == SEGV_ACCERR));
    fault = info->si_addr;
    siglongjmp(back, number);
}

static int signal_of_read(volatile char *address) {
    int number = sigsetjmp(back, 1);
    if (number == 0)
        (void)*address;
    CHECK(number == 0 || fault == address);
    return number;
}

static int signal_of_write(volatile char *address) {
    int number = sigsetjmp(back, 1);
    if (number == 0)
        *address = 'w';
    CHECK(number == 0 || fault == address);
    return number;
}

// Mapped for reading only, as databases do that write by pwrite.
static void read_only(void) {
    int fd = open("database", O_RDWR | O_CREAT, 0644);
    write_all(fd, "meta");
    char *view = mmap(NULL, 64 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(view != MAP_FAILED && memcmp(view, "meta", 5) == 0 && signal_of_read(view + PAGE) == SIGBUS);
    CHECK(pwrite(fd, "META", 4, 0) == 4 && memcmp(view, "META", 5) == 0);
    CHECK(pwrite(fd, "more", 4, PAGE - 2) == 4 && memcmp(view + PAGE - 2, "more", 5) == 0);
    struct iovec parts[] = {{"one", 3}, {"two", 3}};
    CHECK(pwritev(fd, parts, 2, 9 * PAGE) == 6 && memcmp(view + 9 * PAGE, "onetwo", 7) == 0 && view[5 * PAGE] == 0);
    CHECK(lseek(fd, 20 * PAGE, SEEK_SET) == 20 * PAGE && write(fd, "end", 3) == 3 && strcmp(view + 20 * PAGE, "end") == 0);
    CHECK(signal_of_read(view + 21 * PAGE) == SIGBUS && signal_of_write(view + 20 * PAGE) == SIGSEGV);
    CHECK(signal_of_write(view + 21 * PAGE) == SIGSEGV);
    char byte;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    FAILS(write(pipes[1], view + 21 * PAGE, 1), EFAULT);
    CHECK(write(pipes[1], view + 20 * PAGE, 1) == 1 && read(pipes[0], &byte, 1) == 1 && byte == 'e');
    CHECK(munmap(view, 64 * PAGE) == 0 && close(fd) == 0);
    puts("read-only");
}

static void writable(void) {
    int fd = open("log", O_RDWR | O_CREAT, 0644);
    CHECK(ftruncate(fd, 100) == 0);
    char *view = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(view != MAP_FAILED && signal_of_write(view + PAGE) == SIGBUS && signal_of_read(view + 7 * PAGE) == SIGBUS);
    view[0] = 'a', view[99] = 'b';
    CHECK(ftruncate(fd, 3 * PAGE) == 0 && view[0] == 'a' && view[99] == 'b' && view[100] == 0);
    CHECK(signal_of_write(view + 2 * PAGE) == 0 && signal_of_write(view + 3 * PAGE) == SIGBUS);
    char text[2] = {0};
    CHECK(pread(fd, text, 1, 2 * PAGE) == 1 && text[0] == 'w');
    CHECK(ftruncate(fd, 50) == 0 && view[0] == 'a' && view[99] == 0 && signal_of_read(view + PAGE) == SIGBUS);
    // What was cut off does not come back.
    CHECK(ftruncate(fd, 4 * PAGE) == 0 && view[99] == 0 && view[2 * PAGE] == 0);
    CHECK(posix_fallocate(fd, 0, 5 * PAGE) == 0 && signal_of_write(view + 5 * PAGE - 1) == 0);
    CHECK(signal_of_write(view + 5 * PAGE) == SIGBUS);
    CHECK(mprotect(view + PAGE, 6 * PAGE, PROT_READ) == 0);
    CHECK(signal_of_write(view + PAGE) == SIGSEGV && signal_of_read(view + 6 * PAGE) == SIGBUS);
    CHECK(mprotect(view + PAGE, 7 * PAGE, PROT_READ | PROT_WRITE) == 0 && signal_of_write(view + 7 * PAGE) == SIGBUS);
    CHECK(munmap(view + 2 * PAGE, PAGE) == 0 && ftruncate(fd, 8 * PAGE) == 0);
    CHECK(signal_of_write(view + 7 * PAGE) == 0 && signal_of_write(view + PAGE) == 0);
    CHECK(pread(fd, text, 1, 7 * PAGE) == 1 && text[0] == 'w' && pread(fd, text, 1, PAGE) == 1 && text[0] == 'w');
    CHECK(munmap(view, 8 * PAGE) == 0);
    view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 16 * PAGE);
    CHECK(view != MAP_FAILED && signal_of_read(view) == SIGBUS && close(fd) == 0);
    puts("writable");
}

static void from_a_reader(void) {
    int fd = open("log", O_RDONLY);
    char *view = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(view != MAP_FAILED && view[0] == 'a');
    FAILS(mprotect(view, PAGE, PROT_READ | PROT_WRITE), EACCES);
    int other = open("log", O_RDWR);
    CHECK(pwrite(other, "z", 1, 0) == 1 && view[0] == 'z');
    int empty = open("log", O_RDWR | O_TRUNC);
    CHECK(empty >= 0 && signal_of_read(view) == SIGBUS && pwrite(other, "n", 1, 5) == 1 && view[0] == 0 && view[5] == 'n');
    puts("from a reader");
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    read_only();
    writable();
    from_a_reader();
}
