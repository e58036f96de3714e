// Runs functions in which every single instruction is hooked, and prints what they compute. The test fills `hooks` (site and slot of each
// instruction) and `slots` (the displaced instructions) in the compiled file and writes `int3` over the originals;
// here the handler of SIGTRAP does what the supervisor does: it continues the thread in the slot.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <ucontext.h>

asm(".pushsection .slots,\"ax\",@progbits\n.balign 16\n.globl slots\nslots: .fill 0x80000,1,0xcc\n.popsection\n"
    ".pushsection .hooks,\"aw\",@progbits\n.balign 16\n.globl hooks\nhooks: .fill 0x40000,1,0xff\n.popsection\n");
struct Hook { unsigned long site, slot; };
extern "C" const Hook hooks[];
static const size_t hook_capacity = 0x40000 / sizeof(Hook);
static volatile long hits;

// Unused entries are all ones, so the table is sorted as a whole.
static void on_trap(int, siginfo_t *, void *context) {
    greg_t *regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    unsigned long site = regs[REG_RIP] - 1;
    size_t low = 0, high = hook_capacity;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (hooks[middle].site < site) low = middle + 1; else high = middle;
    }
    if (low == hook_capacity || hooks[low].site != site) _Exit(99);
    regs[REG_RIP] = hooks[low].slot;
    hits = hits + 1;
}

static std::atomic<long> counter;
static long plain_counter;
static const char *const names[] = {"zero", "one", "two", "three"};
static thread_local int local = 7;

__attribute__((noinline)) long guest_fibonacci(int n) { return n < 2 ? n : guest_fibonacci(n - 1) + guest_fibonacci(n - 2); }

__attribute__((noinline)) const char *guest_switch(int n) {
    switch (n) {
        case 0: return "nothing"; case 1: return names[1]; case 2: return "a pair"; case 3: return names[3];
        case 4: return "four"; case 5: return "five"; case 6: return "six"; default: return "many";
    }
}

__attribute__((noinline)) void guest_throw(int depth) {
    std::string held = "held";
    if (depth == 0) throw std::runtime_error("thrown through hooked frames");
    guest_throw(depth - 1);
    counter += held.size();
}

__attribute__((noinline)) long guest_atomics(int rounds) {
    for (int i = 0; i < rounds; i++) {
        counter.fetch_add(3);
        long seen = counter.load();
        while (!counter.compare_exchange_weak(seen, seen * 2 % 1000003)) {}
        plain_counter += counter.exchange(seen + i);
        local++;
    }
    return plain_counter + local;
}

__attribute__((noinline)) double guest_floats(int n) {
    double sum = 0.5;
    for (int i = 1; i < n; i++) sum = sum * 1.0009765625 + 1.0 / i;
    return sum;
}

__attribute__((noinline)) void guest_strings(char *out, const char *in, size_t length) {
    size_t count = length;
    const char *from = in;
    char *to = out;
    asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
    long left = 5, sum = 0;
    asm volatile("1: add %1, %0\n\tloop 1b\n\tjrcxz 2f\n\tud2\n2: nop" : "+r"(sum), "+c"(left));
    out[length] = static_cast<char>('0' + sum % 10);
    out[length + 1] = 0;
}

// A system call leaves its return address in rcx: it must be the original one.
__attribute__((noinline)) long guest_syscall() {
    unsigned long after, result = 39, expected;
    asm volatile("syscall\n1: lea 1b(%%rip), %1" : "+a"(result), "=r"(expected), "=c"(after) : : "r11", "memory");
    return after == expected && result > 0;
}

__attribute__((noinline)) long guest_indirect(long (*const *table)(int), int n) { return table[0](n) + table[1](n); }

__attribute__((noinline)) int guest_main() {
    std::printf("%ld\n", guest_fibonacci(12));
    for (int i = 0; i < 9; i++) std::printf("%s ", guest_switch(i));
    try { guest_throw(3); } catch (const std::exception &error) { std::printf("\n%s\n", error.what()); }
    std::printf("%ld %.12f\n", guest_atomics(50), guest_floats(100));
    char buffer[64];
    guest_strings(buffer, "moved by hand", 13);
    long (*const table[])(int) = {guest_fibonacci, guest_atomics};
    std::printf("%s %ld %ld\n", buffer, guest_syscall(), guest_indirect(table, 5));
    return 0;
}

int main() {
    struct sigaction action = {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGTRAP, &action, nullptr);
    int result = guest_main();
    std::fprintf(stderr, "%ld\n", hits);
    return result;
}
