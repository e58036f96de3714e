// Touches N MB in step 1, then a page or two per step, then twice as much again.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
  size_t len = atol(argv[1]) << 20;
  char *p = mmap(0, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < len; i += 4096) *(size_t *)(p + i) = i / 8192 + 1;
  syscall(SYS_getppid);
  p[len / 2] = 77;
  p[len / 2 + 8192] = 78;
  syscall(SYS_getppid);
  for (size_t i = 0; i < len; i += 4096) p[len + i] = 1;
  syscall(SYS_getppid);
  for (int i = 0;; i++) { p[4096 * (i % 7)] = i; syscall(SYS_getppid); }
}
