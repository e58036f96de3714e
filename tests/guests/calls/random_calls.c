// with: table.c world.c fill.c
//
// Makes random system calls from a seed and prints each with its arguments, its result and a digest of what it wrote:
//
//     random_calls SEED COUNT            steps 0 to COUNT-1
//     random_calls SEED COUNT LIST       those of these steps that the list has: 3,17,40
//
// The same seed must print the same natively and supervised. The arguments of a step depend on the seed and its number only, so a step can be left out and
// the others stay what they are. A call that would wait for ever is interrupted by a timer.
#include "calls.h"
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>

unsigned char *output, *input, *arena;
static uintptr_t first_break;

uint64_t draw(struct step *step) {
    uint64_t z = (step->random += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void say(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    CHECK(n < (int)sizeof line && write(LOG, line, n) == n);
}

static void handle(int signal, siginfo_t *info, void *context) {
    (void)context;
    // The timer's own signal only ends a wait; how often it comes is a matter of time.
    if (signal != SIGALRM)
        say("  signal %d code %d value %d\n", signal, info->si_code, info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
}

static const char *const paths[] = {
    "f", "f", "empty", "d", "d/f", "d/new", "new", "s", "sd", "sd/f", "dangling", "loop", "loop/x", "socket", "readonly",
    "locked", "locked/f", "", ".", "..", "d/", "f/", "f/x", "none/x", "d/../f", "/", "/dev/null", "/dev/zero", "d/sub", "d/sub/f", "h",
};
enum { PATH_COUNT = sizeof paths / sizeof *paths };

static long odd_pointer(struct step *step, char *shown) {
    static const long odd[] = {0, 1, -1, (long)0x8000000000000000, 0x7ffffffff000, 0x800000000000};
    long value = odd[below(step, 6)];
    sprintf(shown, "%#lx", (unsigned long)value);
    return value;
}

static long make_path(struct step *step, char *shown) {
    static char name_too_long[300], path_too_long[5000];
    uint64_t which = below(step, 40);
    if (which == 0)
        return odd_pointer(step, shown);
    if (which == 1) {
        memset(name_too_long, 'n', 256);
        strcpy(shown, "256*n");
        return (long)name_too_long;
    }
    if (which == 2) {
        memset(path_too_long, '/', sizeof path_too_long - 1);
        strcpy(shown, "4999*/");
        return (long)path_too_long;
    }
    if (which == 3) {
        memset(input + BUFFER - 3, 'x', 3);
        strcpy(shown, "unterminated");
        return (long)(input + BUFFER - 3);
    }
    const char *path = paths[below(step, PATH_COUNT)];
    sprintf(shown, "\"%s\"", path);
    return (long)path;
}

static long make_descriptor(struct step *step, char *shown) {
    static const long odd[] = {-1, 63, 1000, -2, INT_MAX, INT_MIN, 0x100000003};
    long fd = below(step, 20) == 0 ? odd[below(step, 7)] : (long)below(step, DESCRIPTORS);
    sprintf(shown, "%ld", fd);
    return fd;
}

// Mostly the start of the buffer; or little of it before the page that cannot be touched.
static long make_buffer(struct step *step, unsigned char *buffer, char *shown) {
    uint64_t which = below(step, 16);
    if (which == 0)
        return odd_pointer(step, shown);
    long offset = which == 1 ? BUFFER - (long)below(step, 40) : which == 2 ? (long)below(step, 9) : 0;
    sprintf(shown, "%s+%ld", buffer == output ? "out" : "in", offset);
    return (long)(buffer + offset);
}

static long make_number(struct step *step, enum kind kind, char *shown) {
    static const long sizes[] = {0, 1, 2, 4, 7, 8, 12, 16, 24, 64, 128, 256, 1000, 4095, 4096, 4097, 8192, 70000, 1L << 31, -1, LONG_MIN};
    static const long offsets[] = {0, 0, 1, 100, 4096, 9999, 10000, 20000, 1L << 20, -1, -4096, LONG_MIN, LONG_MAX};
    static const long counts[] = {0, 1, 1, 2, 3, 4, -1, 1024, 1025, INT_MAX};
    static const long lengths[] = {0, 1, 4095, 4096, 4097, 8192, 16384, 65536, 131072, 1L << 47, -1, -4096, LONG_MIN};
    long value;
    switch (kind) {
    case SIZE: value = sizes[below(step, below(step, 4) ? 17 : 21)]; break;
    case OFFSET: value = offsets[below(step, 13)]; break;
    case COUNT: value = counts[below(step, below(step, 4) ? 6 : 10)]; break;
    default: value = lengths[below(step, below(step, 3) ? 8 : 13)]; break;
    }
    sprintf(shown, "%ld", value);
    return value;
}

static long make_iov(struct step *step, char *shown) {
    static struct iovec pieces[1024];
    // `vmsplice` lends memory: it must stay as it is for as long as anybody may read it.
    static unsigned char lasting[64 * PIECES] = "what is lent";
    if (below(step, 20) == 0)
        return odd_pointer(step, shown);
    uint64_t bad = below(step, 30);
    long number = step->call->number;
    bool writes = number == SYS_writev || number == SYS_pwritev || number == SYS_pwritev2;
    unsigned char *buffer = number == SYS_vmsplice ? lasting : writes ? input : output;
    for (int i = 0; i < 1024; i++) {
        pieces[i] = (struct iovec){buffer + 64 * (i % PIECES), i < PIECES ? below(step, 64) : 0};
    }
    if (bad < PIECES)
        pieces[bad].iov_base = (void *)1;
    else if (bad < 2 * PIECES)
        pieces[bad - PIECES].iov_len = (size_t)-1;
    sprintf(shown, "iov/%lu", (unsigned long)bad);
    return (long)pieces;
}

static long make_arena(struct step *step, char *shown) {
    static const long odd[] = {0, 1, 4095, -4096, 0x7ffffffff000, 0x800000000000};
    if (below(step, 8) == 0) {
        long value = odd[below(step, 6)];
        sprintf(shown, "%#lx", (unsigned long)value);
        return value;
    }
    long offset = (long)below(step, MAPPING_PAGES) * 4096 + (below(step, 12) == 0 ? (long)below(step, 4096) : 0);
    sprintf(shown, "arena+%#lx", offset);
    return (long)(arena + offset);
}

static long make_choice(struct step *step, const struct argument *argument, char *shown) {
    long value = 0;
    if (argument->kind != SOME_OF) {
        value = argument->values[below(step, argument->count)];
        if (argument->kind == ONE_OF && below(step, 24) == 0)
            value = (long)below(step, 100) - 20;
    } else {
        for (uint64_t n = below(step, 4); n > 0; n--)
            value |= argument->values[below(step, argument->count)];
        if (below(step, 24) == 0)
            value |= 1L << below(step, 32);
    }
    sprintf(shown, "%#lx", (unsigned long)value);
    return value;
}

static long make(struct step *step, int i) {
    const struct argument *argument = &step->call->arguments[i];
    char *shown = step->shown[i];
    switch (argument->kind) {
    case NOTHING: strcpy(shown, "0"); return 0;
    case PLACE:
        if (below(step, 3)) {
            strcpy(shown, "AT_FDCWD");
            return AT_FDCWD;
        }
        return make_descriptor(step, shown);
    case FD: return make_descriptor(step, shown);
    case PATH: return make_path(step, shown);
    case OUT: return make_buffer(step, output, shown);
    case IN: return make_buffer(step, input, shown);
    case IOV: return make_iov(step, shown);
    case ARENA: return make_arena(step, shown);
    case TEXT: {
        static const char *const names[] = {"user.a", "user.b", "", "nonsense", "user.", "trusted.a", "security.x", "system.x"};
        const char *name = names[below(step, 8)];
        if (below(step, 12) == 0)
            return odd_pointer(step, shown);
        sprintf(shown, "\"%s\"", name);
        return (long)name;
    }
    case EXACT:
    case ONE_OF:
    case SOME_OF: return make_choice(step, argument, shown);
    default: return make_number(step, argument->kind, shown);
    }
}

unsigned char *at(struct step *step, int argument, size_t size) {
    uintptr_t place = (uintptr_t)step->arguments[argument];
    bool in_output = place - (uintptr_t)output <= BUFFER - size;
    bool in_input = place - (uintptr_t)input <= BUFFER - size;
    return in_output || in_input ? (unsigned char *)place : NULL;
}

static uint32_t digest(const unsigned char *bytes, size_t n) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

// Addresses differ between machines and runs: shown by what they belong to.
static void show_result(const struct step *step, char *shown) {
    uintptr_t result = (uintptr_t)step->result, base = (uintptr_t)arena;
    if (step->call->number == SYS_brk)
        sprintf(shown, "break%+ld", (long)(result - first_break));
    else if (result >= base && result <= base + MAPPING_PAGES * 4096)
        sprintf(shown, "arena+%#lx", (long)(result - base));
    else if (result < (uintptr_t)-4095 && (step->call->number == SYS_mmap || step->call->number == SYS_mremap))
        strcpy(shown, "elsewhere");
    else if (result >= (uintptr_t)-4095)
        sprintf(shown, "%s", strerrorname_np(-(int)step->result));
    else
        sprintf(shown, "%ld", step->result);
}

enum { MOST_PATIENCE = 30000 * 3 * 3 };

static void alarm_in(long microseconds) {
    struct timeval time = {microseconds / 1000000, microseconds % 1000000};
    struct itimerval value = {time, time};
    CHECK(setitimer(ITIMER_REAL, &value, NULL) == 0);
}

// Whether the call waits no longer than it was told to, so that it need not be interrupted.
static bool ends_by_itself(const struct step *step) {
    const long *a = step->arguments;
    switch (step->call->number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep: return true;
    case SYS_poll: return (int)a[2] >= 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait: return (int)a[3] >= 0;
    case SYS_ppoll:
    case SYS_rt_sigtimedwait: return a[2] != 0;
    case SYS_select: return a[4] != 0;
    default: return false;
    }
}

// What a call leaves behind that would make later steps depend on time, on memory that is not there, or on too many descriptors.
static void tidy(struct step *step) {
    uintptr_t result = (uintptr_t)step->result;
    bool is_elsewhere = result < (uintptr_t)-4095 && (result < (uintptr_t)arena || result >= (uintptr_t)arena + MAPPING_PAGES * 4096);
    if (step->call->number == SYS_mmap && is_elsewhere)
        munmap((void *)result, step->arguments[1]);
    if (step->call->number == SYS_mremap && is_elsewhere)
        munmap((void *)result, step->arguments[2]);
    for (int fd = DESCRIPTORS; fd < 64; fd++)
        close(fd);
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    CHECK(sigprocmask(SIG_UNBLOCK, &timer, NULL) == 0);
    // Some calls are refused where memory is locked.
    munlockall();
    CHECK(fchmod(HOME, 0755) == 0 && fchdir(HOME) == 0);
}

static void perform(uint64_t seed, int number) {
    struct step step = {.random = seed * 0x2545f4914f6cdd1d + (uint64_t)number * 0x9e3779b97f4a7c15};
    int total = 0;
    for (int i = 0; i < call_count; i++)
        total += calls[i].weight;
    int chosen = (int)below(&step, total);
    const struct call *call = calls;
    while (chosen >= call->weight)
        chosen -= call++->weight;
    step.call = call;
    memset(output, FILL, BUFFER);
    for (int i = 0; i < BUFFER; i++)
        input[i] = (unsigned char)(i * 7 + number);
    for (int i = 0; i < 6; i++)
        step.arguments[i] = make(&step, i);
    if (call->fill)
        call->fill(&step);
    say("%d %s(%s, %s, %s, %s, %s, %s)", number, call->name, step.shown[0], step.shown[1], step.shown[2], step.shown[3], step.shown[4],
        step.shown[5]);
    const long *a = step.arguments;
    static unsigned char before[BUFFER];
    memcpy(before, output, BUFFER);
    step.result = -EINTR;
    // On a busy machine the timer may come before a short wait is over, however late. A call that was interrupted has done nothing, so it can be made again.
    long most = ends_by_itself(&step) ? LONG_MAX / 3 : MOST_PATIENCE;
    for (long patience = 30000; step.result == -EINTR && patience <= most; patience *= 3) {
        // How much was left to wait for is told, and is a matter of time.
        memcpy(output, before, BUFFER);
        alarm_in(patience);
        errno = 0;
        step.result = syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (step.result == -1 && errno)
            step.result = -errno;
        alarm_in(0);
    }
    // What a call that failed has left in its buffers is nobody's business.
    if (step.result < 0 && step.result >= -4095)
        memset(output, FILL, BUFFER);
    if (call->normalise)
        call->normalise(&step);
    char shown[64], changed[32] = "";
    show_result(&step, shown);
    for (int i = 0; i < BUFFER && !*changed; i++)
        if (output[i] != FILL)
            sprintf(changed, " out %08x", digest(output, BUFFER));
    say(" = %s%s%s\n", shown, step.told, changed);
    tidy(&step);
}

// Memory with a page behind it that cannot be touched. It is always at the same place: how far it is from the end of all addresses decides which
// lengths are refused at once.
static unsigned char *guarded(uintptr_t place) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    unsigned char *memory = mmap((void *)place, BUFFER + 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + BUFFER, 4096, PROT_NONE) == 0);
    return memory;
}

static void set_up(void) {
    output = guarded(0x1100000000), input = guarded(0x1200000000);
    arena = mmap((void *)0x1000000000, MAPPING_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(arena != MAP_FAILED);
    first_break = (uintptr_t)sbrk(0);
    // What is compared must not depend on how the tests are run (at another priority, in a container), nor on who runs them: root may do what nobody else may.
    // Nobody is kept from taking the lowest priority.
    CHECK(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}) == 0 && setpriority(PRIO_PROCESS, 0, 19) == 0);
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_NICE, &none) == 0 && setrlimit(RLIMIT_RTPRIO, &none) == 0);
    if (geteuid() == 0) {
        CHECK(chown(".", 65534, 65534) == 0);
        CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    }
    CHECK(setpgid(0, 0) == 0);
    umask(022);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    make_files();
    int home = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(dup2(1, LOG) == LOG && dup2(home, HOME) == HOME && close(home) == 0);
    close(0), close(1), close(2);
    struct rlimit limit = {64, 64};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    make_descriptors();
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    int handled[] = {SIGALRM, SIGUSR1, SIGUSR2, SIGRTMIN, SIGRTMIN + 1};
    for (int i = 0; i < 5; i++)
        CHECK(sigaction(handled[i], &action, NULL) == 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGIO, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int main(int count, char **arguments) {
    CHECK(count >= 3);
    uint64_t seed = strtoull(arguments[1], NULL, 10);
    int steps = atoi(arguments[2]);
    // What whoever started it left open would shift all numbers.
    syscall(SYS_close_range, 3, ~0U, 0);
    set_up();
    if (count == 3) {
        for (int i = 0; i < steps; i++)
            perform(seed, i);
    } else {
        for (char *rest = arguments[3]; *rest; rest += *rest == ',')
            perform(seed, (int)strtol(rest, &rest, 10));
    }
    return 0;
}
