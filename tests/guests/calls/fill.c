// Input that means something to a call, and output that means the same in every run.
#include "normalise.h"
#include <dirent.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <poll.h>

// Output.

void forget_output(struct step *step) {
    (void)step;
    memset(output, FILL, BUFFER);
}

void forget_result(struct step *step) {
    forget_output(step);
    // A session can be led from outside of the process's namespace: then its id is 0.
    if (step->result >= 0)
        step->result = 1;
}

void forget_output_and_size(struct step *step) { forget_result(step); }

// Devices, inodes, times, blocks and the sizes of directories are the file system's own business.
void normalise_stat(struct step *step) {
    struct stat *stat = (struct stat *)at(step, step->call->number == SYS_newfstatat ? 2 : 1, sizeof *stat);
    if (step->result != 0 || !stat)
        return;
    struct stat kept = {.st_mode = stat->st_mode, .st_uid = stat->st_uid, .st_gid = stat->st_gid};
    if (S_ISREG(stat->st_mode) || S_ISLNK(stat->st_mode))
        kept.st_size = stat->st_size, kept.st_nlink = stat->st_nlink;
    // What is set of what has no name is not kept.
    if (step->call->number == SYS_fstat && (S_ISFIFO(stat->st_mode) || S_ISSOCK(stat->st_mode)))
        kept = (struct stat){.st_mode = stat->st_mode & S_IFMT};
    // The root of this machine is not the test's.
    if (strcmp(step->shown[0], "\"/\"") == 0 || strcmp(step->shown[1], "\"/\"") == 0 || strstr(step->shown[0], "..") || strstr(step->shown[1], "\"..\""))
        memset(&kept, 0, sizeof kept);
    *stat = kept;
}

void normalise_statx(struct step *step) {
    struct statx *stat = (struct statx *)at(step, 4, sizeof *stat);
    if (step->result != 0 || !stat)
        return;
    struct statx kept = {.stx_mode = stat->stx_mode, .stx_uid = stat->stx_uid, .stx_gid = stat->stx_gid};
    if (S_ISREG(stat->stx_mode) || S_ISLNK(stat->stx_mode))
        kept.stx_size = stat->stx_size, kept.stx_nlink = stat->stx_nlink;
    if (strcmp(step->shown[1], "\"/\"") == 0 || strcmp(step->shown[1], "\"..\"") == 0)
        memset(&kept, 0, sizeof kept);
    *stat = kept;
}

// Names in whatever order; inodes and positions are not told.
void normalise_entries(struct step *step) {
    uint64_t sum = 0;
    for (long i = 0; i < step->result && step->arguments[1];) {
        struct dirent64 *entry = (struct dirent64 *)(step->arguments[1] + i);
        for (const char *c = entry->d_name; *c; c++)
            sum += (uint64_t)(unsigned char)*c * 31;
        sum += entry->d_type * 1009u;
        i += entry->d_reclen;
    }
    bool is_whole = step->arguments[2] >= 4096;
    // Where reading goes on, and whether it then finds what was made meanwhile, is the file system's own business, too.
    lseek((int)step->arguments[0], 0, SEEK_SET);
    forget_result(step);
    if (is_whole)
        memcpy(output, &sum, sizeof sum);
}

// The same for entries of the older kind, of which only that there are any is told.
void normalise_old_entries(struct step *step) {
    lseek((int)step->arguments[0], 0, SEEK_SET);
    forget_result(step);
}

// Sizes of buffers and the like differ with the machine's settings.
void normalise_option(struct step *step) {
    if (step->arguments[1] != SOL_SOCKET)
        forget_output(step);
}

static mode_t type_of(int fd) {
    struct stat stat;
    return fstat(fd, &stat) == 0 ? stat.st_mode & S_IFMT : (mode_t)-1;
}

// Which process sent a signal differs from run to run.
void normalise_read(struct step *step) {
    bool is_list = step->call->arguments[1].kind == IOV;
    bool has_sender = is_list && step->result > 0 && type_of((int)step->arguments[0]) == 0;
    if (has_sender || is_lent((int)step->arguments[0]))
        forget_output(step);
    struct record {
        uint32_t signal, error, code, pid, uid;
    };
    // Several can come at once.
    for (long offset = 0; step->result % 128 == 0 && offset < step->result; offset += 128) {
        unsigned char *place = at(step, 1, offset + 128);
        struct record *record = place ? (struct record *)(place + offset) : NULL;
        if (record && record->error == 0 && (record->signal == SIGUSR1 || record->signal == SIGUSR2))
            record->pid = record->uid = 0;
    }
}

static bool seeks_hole(const struct step *step) {
    int whence = (int)step->arguments[2];
    return (whence == SEEK_DATA || whence == SEEK_HOLE) && type_of((int)step->arguments[0]) == S_IFREG;
}

// Positions in directories are the file system's own business.
void fill_seek(struct step *step) {
    if (type_of((int)step->arguments[0]) == S_IFDIR)
        step->arguments[0] = 1000, strcpy(step->shown[0], "a directory");
}

// So is where the holes of a file are.
void normalise_seek(struct step *step) {
    if (!seeks_hole(step) || step->result == -EBADF)
        return;
    lseek((int)step->arguments[0], 0, SEEK_SET);
    step->result = 0;
}

// The mode of what has no name can be set, and is not kept.
void normalise_mode(struct step *step) {
    int fd = (int)step->arguments[0];
    mode_t type = type_of(fd);
    if (step->result == 0 && (type == S_IFIFO || type == S_IFSOCK))
        fchmod(fd, type == S_IFIFO ? 0600 : 0777);
}

static bool lent;

static bool is_channel(int fd) { return type_of(fd) == S_IFIFO || type_of(fd) == S_IFSOCK; }

bool is_lent(int fd) { return lent && is_channel(fd); }

static int source(const struct step *step) { return (int)step->arguments[step->call->number == SYS_sendfile ? 1 : 0]; }
static int target(const struct step *step) { return (int)step->arguments[step->call->number == SYS_sendfile ? 0 : 2]; }

// What was lent does not come back into a file.
void fill_moved(struct step *step) {
    fill_offset(step);
    if (step->call->number == SYS_splice && is_lent(source(step)) && !is_channel(target(step)))
        step->arguments[0] = -1, strcpy(step->shown[0], "-1");
}

void normalise_moved(struct step *step) {
    if (step->result > 0 && type_of(source(step)) == S_IFREG && is_channel(target(step)))
        lent = true;
}

// The entries of poll, in words.
void tell_poll(struct step *step) {
    struct pollfd *fds = (struct pollfd *)at(step, 0, 64);
    for (int i = 0, n = 0; fds && i < 8 && i < (int)step->arguments[1]; i++)
        if (fds[i].fd >= 0)
            n += snprintf(step->told + n, sizeof step->told - n, " %d:%x=%x", fds[i].fd, (unsigned short)fds[i].events, (unsigned short)fds[i].revents);
}

// Input.

static const long places[] = {0, 0, 1, 100, 4096, -1};

void fill_offset(struct step *step) {
    for (int i = 1; i < 4; i++) {
        long *offset = (long *)at(step, i, 8);
        if (!offset || step->call->arguments[i].kind != IN)
            continue;
        if (below(step, 2)) {
            step->arguments[i] = 0;
            strcpy(step->shown[i], "0");
            continue;
        }
        // Both offsets may be at the same place; then they have the same value.
        memcpy(offset, &places[below(step, 6)], 8);
        sprintf(step->shown[i] + strlen(step->shown[i]), "[%ld]", *offset);
    }
}

void fill_open_how(struct step *step) {
    struct open_how *how = (struct open_how *)at(step, 2, sizeof *how);
    static const uint64_t flags[] = {O_RDONLY, O_RDWR, O_CREAT | O_WRONLY, O_PATH, 1ull << 40, O_CREAT | O_DIRECTORY};
    static const uint64_t modes[] = {0, 0, 0644, 01000000};
    memset(input, 0, 64);
    if (how)
        *how = (struct open_how){flags[below(step, 6)], modes[below(step, 4)], below(step, 10) ? 0 : 1ull << 32};
}

void fill_times(struct step *step) {
    int which = step->call->number == SYS_utimes || step->call->number == SYS_utime ? 1 : 2;
    static const long fractions[] = {0, 1, 999999, 1000000, 999999999, 1000000000, UTIME_NOW, UTIME_OMIT, -1};
    long *times = (long *)at(step, which, 32);
    if (times)
        times[0] = 1000, times[1] = fractions[below(step, 9)], times[2] = 2000, times[3] = fractions[below(step, 9)];
}

void fill_lock(struct step *step) {
    struct flock *lock = (struct flock *)at(step, 2, sizeof *lock);
    if (lock)
        *lock = (struct flock){(short)below(step, 4), (short)below(step, 4), places[below(step, 6)], places[below(step, 6)], 0};
}

void fill_event(struct step *step) {
    static const uint32_t events[] = {EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLET, EPOLLIN | EPOLLOUT | EPOLLONESHOT, 0, EPOLLEXCLUSIVE | EPOLLIN, ~0u};
    struct epoll_event *event = (struct epoll_event *)at(step, 3, sizeof *event);
    if (event)
        event->events = events[below(step, 7)], event->data.u64 = (uint64_t)step->arguments[2];
}

static void set_mask(struct step *step, int argument) {
    uint64_t *mask = (uint64_t *)at(step, argument, 8);
    static const uint64_t masks[] = {0, 1ull << (SIGUSR1 - 1), 1ull << (SIGUSR2 - 1), (1ull << (SIGUSR1 - 1)) | (1ull << (SIGWINCH - 1)), 1ull << 33};
    if (mask)
        *mask = masks[below(step, 5)];
}

void fill_mask(struct step *step) {
    for (int i = 0; i < 6; i++)
        if (step->call->arguments[i].kind == IN)
            set_mask(step, i);
}

void fill_poll(struct step *step) {
    struct pollfd *fds = (struct pollfd *)output;
    static const short events[] = {POLLIN, POLLOUT, POLLIN | POLLOUT, POLLPRI, 0, POLLIN | POLLRDHUP, -1};
    for (int i = 0; i < 8; i++)
        fds[i] = (struct pollfd){(int)below(step, 44) - 2, events[below(step, 7)], 0x5555};
}

void fill_ppoll(struct step *step) {
    static const long seconds[] = {0, 0, 0, -1};
    static const long fractions[] = {0, 1, -1, 1000000000};
    long *timeout = (long *)at(step, 2, 16);
    if (timeout)
        timeout[0] = seconds[below(step, 4)], timeout[1] = fractions[below(step, 4)];
    fill_poll(step);
}

void fill_select(struct step *step) {
    uint64_t *sets = (uint64_t *)output;
    for (int i = 0; i < 64; i++)
        sets[i] = i % 16 ? 0 : draw(step) & draw(step) & draw(step) & 0xffffffffff;
    long *timeout = (long *)at(step, 4, 16);
    static const long seconds[] = {0, 0, 0, -1};
    static const long fractions[] = {0, 1, -1, 1000000};
    if (timeout)
        timeout[0] = seconds[below(step, 4)], timeout[1] = fractions[below(step, 4)];
}

void fill_timer(struct step *step) {
    static const long seconds[] = {0, 0, 100000, -1};
    static const long fractions[] = {0, 0, 0, -1, 1000000000};
    for (int i = 0; i < 6; i++) {
        long *value = (long *)at(step, i, 32);
        if (value && step->call->arguments[i].kind == IN)
            value[0] = seconds[below(step, 4)], value[1] = fractions[below(step, 5)], value[2] = seconds[below(step, 4)], value[3] = fractions[below(step, 5)];
    }
}

static void set_address(struct step *step, int argument) {
    static const char *const names[] = {"socket", "name", "none/x", "f", "", "d"};
    unsigned char *place = at(step, argument, 130);
    if (!place)
        return;
    memset(place, 0, 130);
    bool connects = step->call->number == SYS_connect;
    bool binds = step->call->number == SYS_bind;
    uint16_t families[] = {AF_UNIX, AF_UNIX, AF_UNIX, binds ? AF_INET : 97, connects ? 98 : AF_UNSPEC, 99};
    *(uint16_t *)place = families[below(step, 6)];
    if (*(uint16_t *)place == AF_UNIX)
        strcpy((char *)place + 2, names[below(step, 6)]);
    else
        // Binding to a port of the kernel's choice.
        ((struct sockaddr_in *)place)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sprintf(step->shown[argument] + strlen(step->shown[argument]), "[%d %.10s]", *(uint16_t *)place, place + 2);
    for (char *c = step->shown[argument]; *c; c++)
        if ((unsigned char)*c >= 127 || *c < 32)
            *c = '?';
}

void fill_address(struct step *step) { set_address(step, 1); }
void fill_address4(struct step *step) { set_address(step, 4); }

static void set_length(struct step *step, int argument) {
    static const int lengths[] = {0, 2, 4, 16, 110, 128, -1, 1};
    int *place = (int *)at(step, argument, 4);
    if (place)
        *place = lengths[below(step, 8)], sprintf(step->shown[argument] + strlen(step->shown[argument]), "[%d]", *place);
}

void fill_length(struct step *step) { set_length(step, 2); }
void fill_length2(struct step *step) { set_length(step, 2); }
void fill_length4(struct step *step) { set_length(step, 4); }

void fill_message(struct step *step) {
    struct mmsghdr *message = (struct mmsghdr *)at(step, 1, sizeof *message);
    static struct iovec pieces[4];
    bool sends = step->call->number != SYS_recvmsg;
    for (int i = 0; i < 4; i++)
        pieces[i] = (struct iovec){(sends ? input + 1024 : output) + 64 * i, below(step, 40)};
    if (below(step, 12) == 0)
        pieces[1].iov_base = (void *)1;
    static const size_t counts[] = {0, 1, 2, 4, 1025};
    if (message)
        *message = (struct mmsghdr){.msg_hdr = {.msg_iov = pieces, .msg_iovlen = counts[below(step, 5)]}, .msg_len = 0};
}

void fill_option(struct step *step) {
    int *value = (int *)at(step, 3, 8);
    if (value)
        value[0] = (int)below(step, 2), value[1] = 0;
}

void fill_remap(struct step *step) {
    // Shared memory in two places is not modelled.
    if (step->arguments[3] & MREMAP_MAYMOVE) {
        step->arguments[3] &= MREMAP_MAYMOVE | MREMAP_FIXED;
        if (step->arguments[1] == 0)
            step->arguments[1] = 1, strcpy(step->shown[1], "1");
    }
    // Where to, which only counts with MREMAP_FIXED.
    step->arguments[4] = (long)arena + 4096 * (long)below(step, MAPPING_PAGES);
}

// Signals that would end the program are not sent.
static void spare(struct step *step, int argument) {
    long signal = step->arguments[argument];
    if (signal > 0 && signal < 65 && signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGWINCH && signal != SIGCHLD)
        step->arguments[argument] = SIGUSR2, strcpy(step->shown[argument], "SIGUSR2");
}

// 1 stands for the process or thread itself, 2 for one that does not exist.
void fill_self(struct step *step) {
    long number = step->call->number;
    int signal = number == SYS_tgkill ? 2 : 1;
    spare(step, signal);
    for (int i = 0; i < (number == SYS_kill ? 0 : signal); i++)
        step->arguments[i] = step->arguments[i] == 1 ? getpid() : step->arguments[i] == 2 ? 999999 : step->arguments[i] > 0 ? 0 : step->arguments[i];
}

void fill_timed_wait(struct step *step) {
    set_mask(step, 0);
    if (step->arguments[0] == step->arguments[2])
        step->arguments[2] = (long)(input + 512), strcpy(step->shown[2], "in+512");
    long *timeout = (long *)at(step, 2, 16);
    static const long fractions[] = {0, 0, 0, 1, -1, 1000000000};
    if (timeout)
        timeout[0] = 0, timeout[1] = fractions[below(step, 6)];
}

void fill_action(struct step *step) {
    long *action = (long *)at(step, 1, 32);
    if (action)
        action[0] = (long)below(step, 2), action[1] = 0, action[2] = 0, action[3] = 0;
}

void fill_stack(struct step *step) {
    stack_t *stack = (stack_t *)at(step, 0, sizeof *stack);
    static const int flags[] = {0, SS_DISABLE, SS_ONSTACK, 8};
    static const size_t sizes[] = {0, 100, 8192, 65536};
    if (stack)
        *stack = (stack_t){.ss_sp = output, .ss_flags = flags[below(step, 4)], .ss_size = sizes[below(step, 4)]};
}

void fill_info(struct step *step) {
    siginfo_t *info = (siginfo_t *)at(step, 2, sizeof *info);
    static const int codes[] = {SI_QUEUE, SI_QUEUE, SI_USER, SI_TKILL, 1};
    if (info) {
        memset(info, 0, sizeof *info);
        info->si_code = codes[below(step, 5)];
        info->si_value.sival_int = 42;
    }
    spare(step, 1);
    if (step->arguments[0] == 1)
        step->arguments[0] = getpid();
}

void fill_nap(struct step *step) {
    static const long seconds[] = {0, 0, 0, -1};
    static const long fractions[] = {0, 1, 1000, -1, 1000000000};
    for (int i = 0; i < 6; i++) {
        long *time = (long *)at(step, i, 16);
        if (time && step->call->arguments[i].kind == IN)
            time[0] = seconds[below(step, 4)], time[1] = fractions[below(step, 5)];
    }
}

void fill_sigevent(struct step *step) {
    struct sigevent *event = (struct sigevent *)at(step, 1, sizeof *event);
    static const int how[] = {SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD, 99};
    static const int signals[] = {SIGUSR2, 0, 65, SIGWINCH};
    if (event) {
        memset(event, 0, sizeof *event);
        event->sigev_notify = how[below(step, 4)], event->sigev_signo = signals[below(step, 4)];
    }
}

void fill_limit(struct step *step) {
    // How many signals are queued is counted over all processes of the user.
    int which = step->call->number == SYS_prlimit64 ? 1 : 0;
    if ((int)step->arguments[which] == RLIMIT_SIGPENDING)
        step->arguments[which] = 4, strcpy(step->shown[which], "4");
    for (int i = 1; i < 3; i++) {
        struct rlimit *limit = (struct rlimit *)at(step, i, sizeof *limit);
        if (limit && step->call->arguments[i].kind == IN)
            limit->rlim_cur = below(step, 2) ? 0 : 10, limit->rlim_max = 0;
    }
}

void fill_zero(struct step *step) {
    (void)step;
    memset(input, 0, 64);
}

// What comes in on TCP can be mapped natively; what happens at its place later would differ. A type of mapping that came with Linux 6.11 is not asked for.
void fill_mapped(struct step *step) {
    if ((step->arguments[3] & 0xf) == 8)
        step->arguments[3] &= ~8L, strcat(step->shown[3], "-8");
    int protocol = 0;
    socklen_t size = sizeof protocol;
    if (getsockopt((int)step->arguments[4], SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP)
        step->arguments[4] = -1, strcpy(step->shown[4], "-1");
}

// Clocks that need a device which can wake the machine, and those of other processes.
void fill_clock(struct step *step) {
    int clock = (int)step->arguments[0];
    bool is_other = clock < -8 && (clock & 3) != 3;
    if (clock == 8 || clock == 9 || is_other)
        step->arguments[0] = 7, strcpy(step->shown[0], "7");
    if (step->call->number == SYS_timer_create)
        fill_sigevent(step);
}

// Which families of sockets there are depends on how the kernel was built, but for a few.
void fill_family(struct step *step) {
    int family = (int)step->arguments[0];
    bool is_known = family < 3 || family == AF_INET6 || family == AF_NETLINK || family == AF_PACKET || family >= AF_MAX;
    if (!is_known)
        step->arguments[0] = 99, strcpy(step->shown[0], "99");
}

// How many processors a kernel could have decides how long their set is.
void fill_room(struct step *step) {
    unsigned char *place = (unsigned char *)step->arguments[2];
    if (place > output && place < output + BUFFER)
        step->arguments[2] = (long)output, strcpy(step->shown[2], "out");
}

// Whether the last address of all is the kernel's or nobody's differs between kernels.
void fill_futex(struct step *step) {
    for (int i = 0; i < 5; i += 4)
        if (step->arguments[i] == 0x7ffffffff000)
            step->arguments[i] = 0x800000000000, strcpy(step->shown[i], "0x800000000000");
}

// Since Linux 6.15 a file grows by a write that fails, up to where that would have begun.
void fill_write(struct step *step) {
    int fd = (int)step->arguments[0];
    long number = step->call->number;
    bool has_place = number != SYS_write && number != SYS_writev;
    struct stat stat;
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        return;
    long place = has_place ? step->arguments[3] : -1;
    if (place == -1)
        place = lseek(fd, 0, SEEK_CUR);
    if (place <= stat.st_size)
        return;
    if (step->call->arguments[1].kind == IOV)
        step->arguments[2] = 0, strcpy(step->shown[2], "0");
    else if (!at(step, 1, 4097))
        step->arguments[1] = (long)input, step->arguments[2] &= 0xfff, strcpy(step->shown[1], "in");
}

// The test's own memory is not given away.
void fill_advice(struct step *step) {
    bool gives = step->arguments[2] == 4 || step->arguments[2] == 8;
    uintptr_t place = (uintptr_t)step->arguments[0] - (uintptr_t)arena;
    if (gives && place >= MAPPING_PAGES * 4096)
        step->arguments[2] = 0, strcpy(step->shown[2], "0");
    // Nor is what the kernel itself has in it asked about.
    if (step->arguments[0] == 0 && step->arguments[1] < 0)
        step->arguments[1] = 65536, strcpy(step->shown[1], "65536");
}

// All that has no inode of its own has one in common, with that of all other processes.
void fill_flock(struct step *step) {
    if (type_of((int)step->arguments[0]) == 0)
        step->arguments[0] = -1, strcpy(step->shown[0], "-1");
}
