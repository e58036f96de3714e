// Changes memory in all ways there are, by a seeded random sequence; each step ends with getppid.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 8
static uint64_t state;
static char bss[64 * 1024];
static char data[32 * 1024] = {1, 2, 3};
static struct { char *at; size_t len; int prot; } maps[SLOTS];
static char *blocks[SLOTS];

static uint64_t rnd(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

static void touch_stack(int depth) {
  volatile char frame[3000];
  frame[rnd(sizeof frame)] = rnd(256);
  if (depth) touch_stack(depth - 1);
  frame[0] = depth;
}

static void map(int i, const char *self) {
  size_t len = (1 + rnd(20)) * 4096;
  int prot = PROT_READ | PROT_WRITE;
  if (rnd(4) == 0) {
    int fd = open(self, O_RDONLY);
    len = 4096 * (1 + rnd(3));
    maps[i].at = mmap(0, len, prot, MAP_PRIVATE, fd, 0);
    close(fd);
  } else {
    maps[i].at = mmap(0, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(maps[i].at, rnd(256), rnd(len));
  }
  if (maps[i].at == MAP_FAILED) exit(2);
  maps[i].len = len;
  maps[i].prot = prot;
}

static void change_map(int i, const char *self) {
  if (!maps[i].at) { map(i, self); return; }
  switch (rnd(6)) {
  case 0:
    munmap(maps[i].at, maps[i].len);
    maps[i].at = 0;
    break;
  case 1:
    maps[i].prot = maps[i].prot & PROT_WRITE ? (rnd(2) ? PROT_READ : PROT_NONE) : PROT_READ | PROT_WRITE;
    mprotect(maps[i].at, maps[i].len, maps[i].prot);
    break;
  case 2:
    if (madvise(maps[i].at, maps[i].len, MADV_DONTNEED)) exit(3);
    break;
  case 3: {
    char *moved = mremap(maps[i].at, maps[i].len, maps[i].len + 4096, MREMAP_MAYMOVE);
    if (moved != MAP_FAILED) maps[i].at = moved, maps[i].len += 4096;
    break;
  }
  default:
    // Not behind the end of the file.
    if (maps[i].prot & PROT_WRITE) maps[i].at[rnd(4096)] = rnd(256);
  }
}

static void kernel_writes(const char *self) {
  int fd = open(self, O_RDONLY);
  pread(fd, bss + rnd(sizeof bss - 5000), 5000, rnd(8000));
  close(fd);
}

int main(int argc, char **argv) {
  int steps = atoi(argv[1]);
  state = atoi(argv[2]);
  int quiet = argc > 3; // no change of mappings
  for (int step = 0; step < steps; step++) {
    syscall(SYS_getppid, step);
    for (int n = rnd(4); n >= 0; n--) {
      int i = rnd(SLOTS);
      switch (rnd(quiet ? 4 : 8)) {
      case 0: bss[rnd(sizeof bss)] = rnd(256); break;
      case 1: data[rnd(sizeof data)] = rnd(4); break;
      case 2: touch_stack(rnd(12)); break;
      case 3: kernel_writes(argv[0][0] == '/' ? argv[0] : "/proc/self/exe"); break;
      case 4: free(blocks[i]); blocks[i] = malloc(rnd(3) ? rnd(2000) : rnd(400000)); if (blocks[i]) *blocks[i] = rnd(256); break;
      case 5: sbrk((long)rnd(5) * 4096 - 2 * 4096 > 0 ? 4096 * 3 : 100); break;
      default: change_map(i, "/proc/self/exe");
      }
    }
  }
  return 0;
}
