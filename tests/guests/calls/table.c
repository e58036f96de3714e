// The calls, how their arguments are made, and what of their output is the same in every run.
#include "calls.h"
#include <linux/falloc.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include "normalise.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define OPEN_FLAGS SOME(O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NONBLOCK, O_DIRECTORY, O_NOFOLLOW, O_PATH, O_CLOEXEC)
#define MODE ONE(0644, 0600, 0, 0777, 04755)
#define PROT SOME(PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE)
#define SEND SOME(MSG_DONTWAIT, MSG_NOSIGNAL, MSG_EOR)
#define RECEIVE SOME(MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, MSG_OOB)
#define SPLICE SOME(SPLICE_F_MOVE, SPLICE_F_NONBLOCK, SPLICE_F_MORE)
#define SIGNAL ONE(SIGUSR1, SIGUSR2, 0, SIGWINCH, SIGCHLD, 65, -1)
#define SIGSET_SIZE ONE(8, 8, 8, 8, 0, 4, 16)
#define CLOCK ONE(0, 1, 4, 5, 6, 7, 2, 3, 11, 12, -1, 99)
#define AT_FLAGS SOME(AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_NO_AUTOMOUNT)
#define XFLAGS ONE(0, XATTR_CREATE, XATTR_REPLACE, 3, 4)
#define WHO ONLY(0, 1, 3, -1)
#define ID ONE(-1, 65534, 0, 1000)

#define CALL(name, weight, ...) {#name, SYS_##name, weight, {__VA_ARGS__}, NULL, NULL}
#define CALL_NF(name, weight, normalise, fill, ...) {#name, SYS_##name, weight, {__VA_ARGS__}, normalise, fill}

const struct call calls[] = {
    // Data.
    CALL_NF(read, 12, normalise_read, NULL, A(FD), A(OUT), A(SIZE)),
    CALL_NF(write, 12, NULL, fill_write, A(FD), A(IN), A(SIZE)),
    CALL_NF(readv, 6, normalise_read, NULL, A(FD), A(IOV), A(COUNT)),
    CALL_NF(writev, 6, NULL, fill_write, A(FD), A(IOV), A(COUNT)),
    CALL(pread64, 6, A(FD), A(OUT), A(SIZE), A(OFFSET)),
    CALL_NF(pwrite64, 6, NULL, fill_write, A(FD), A(IN), A(SIZE), ONE(0, 1, 100, 4096, -1, LONG_MIN)),
    CALL(preadv, 4, A(FD), A(IOV), A(COUNT), A(OFFSET)),
    CALL_NF(pwritev, 4, NULL, fill_write, A(FD), A(IOV), A(COUNT), ONE(0, 1, 100, 4096, -1, LONG_MIN)),
    CALL_NF(preadv2, 4, normalise_read, NULL, A(FD), A(IOV), A(COUNT), A(OFFSET), A(NOTHING), ONLY(0, 0, 0, 2, 4, 1 << 30)),
    CALL_NF(pwritev2, 4, NULL, fill_write, A(FD), A(IOV), A(COUNT), ONE(0, 1, 100, -1, LONG_MIN), A(NOTHING), ONLY(0, 0, 0, 2, 4, 16, 1 << 30)),
    CALL_NF(lseek, 8, normalise_seek, fill_seek, A(FD), A(OFFSET), ONE(SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, 5, -1)),
    CALL_NF(sendfile, 14, normalise_moved, fill_moved, A(FD), A(FD), A(IN), A(SIZE)),
    CALL_NF(copy_file_range, 14, NULL, fill_offset, A(FD), A(IN), A(FD), A(IN), A(SIZE), ONE(0, 0, 0, 0, 0, 1)),
    CALL_NF(splice, 18, normalise_moved, fill_moved, A(FD), A(IN), A(FD), A(IN), A(SIZE), SPLICE),
    CALL(tee, 8, A(FD), A(FD), A(SIZE), SPLICE),
    CALL_NF(vmsplice, 8, normalise_read, NULL, A(FD), A(IOV), A(COUNT), SPLICE),
    CALL(ftruncate, 5, A(FD), ONE(0, 1, 100, 5000, -1, LONG_MIN)),
    CALL(truncate, 4, A(PATH), ONE(0, 1, 100, 5000, -1, LONG_MIN)),
    CALL(fallocate, 5, A(FD), ONE(0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE, 0x400),
         ONE(0, 1, 4096, -1), ONE(0, 1, 4096, 9000, -1)),
    CALL(fsync, 3, A(FD)),
    CALL(fdatasync, 2, A(FD)),
    CALL(sync_file_range, 3, A(FD), A(OFFSET), A(OFFSET), ONE(0, 1, 2, 4, 7, 8)),
    CALL(readahead, 3, A(FD), A(OFFSET), A(SIZE)),
    CALL(fadvise64, 3, A(FD), A(OFFSET), ONE(0, 1, 4096, -1), ONE(0, 1, 2, 3, 4, 5, 6, -1)),
    // Names.
    CALL(open, 5, A(PATH), OPEN_FLAGS, MODE),
    CALL(openat, 6, A(PLACE), A(PATH), OPEN_FLAGS, MODE),
    CALL_NF(openat2, 4, NULL, fill_open_how, A(PLACE), A(PATH), A(IN), ONE(24, 24, 24, 32, 0, 8, 23, 4097)),
    CALL(creat, 2, A(PATH), MODE),
    CALL(mkdir, 3, A(PATH), MODE),
    CALL(mkdirat, 2, A(PLACE), A(PATH), MODE),
    CALL(rmdir, 3, A(PATH)),
    CALL(unlink, 3, A(PATH)),
    CALL(unlinkat, 3, A(PLACE), A(PATH), ONE(0, AT_REMOVEDIR, 1, 0x1000)),
    CALL(rename, 4, A(PATH), A(PATH)),
    CALL(renameat2, 5, A(PLACE), A(PATH), A(PLACE), A(PATH), ONLY(0, 0, 0, 1, 2, 3, 8)),
    CALL(link, 3, A(PATH), A(PATH)),
    CALL(linkat, 3, A(PLACE), A(PATH), A(PLACE), A(PATH), SOME(AT_SYMLINK_FOLLOW)),
    CALL(symlink, 3, A(PATH), A(PATH)),
    CALL(symlinkat, 2, A(PATH), A(PLACE), A(PATH)),
    CALL(readlink, 4, A(PATH), A(OUT), A(SIZE)),
    CALL(readlinkat, 3, A(PLACE), A(PATH), A(OUT), A(SIZE)),
    CALL(mknod, 3, A(PATH), ONE(S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK, S_IFCHR | 0644, S_IFSOCK | 0644, 0644), ONE(0, 259)),
    CALL(mknodat, 2, A(PLACE), A(PATH), ONE(S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK, S_IFCHR | 0644, 0644), ONE(0, 259)),
    CALL(chmod, 3, A(PATH), MODE),
    CALL_NF(fchmod, 3, normalise_mode, NULL, A(FD), MODE),
    CALL(fchmodat, 2, A(PLACE), A(PATH), MODE),
    CALL(fchmodat2, 3, A(PLACE), A(PATH), MODE, AT_FLAGS),
    CALL(chown, 2, A(PATH), ID, ID),
    CALL(lchown, 2, A(PATH), ID, ID),
    CALL(fchown, 2, A(FD), ID, ID),
    CALL(fchownat, 3, A(PLACE), A(PATH), ID, ID, AT_FLAGS),
    CALL(access, 4, A(PATH), ONE(0, 1, 2, 4, 7, 8, -1)),
    CALL(faccessat, 2, A(PLACE), A(PATH), ONE(0, 1, 2, 4, 7, 8, -1)),
    CALL(faccessat2, 3, A(PLACE), A(PATH), ONE(0, 1, 2, 4, 7, 8), SOME(AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH)),
    CALL_NF(stat, 4, normalise_stat, NULL, A(PATH), A(OUT)),
    CALL_NF(lstat, 3, normalise_stat, NULL, A(PATH), A(OUT)),
    CALL_NF(fstat, 5, normalise_stat, NULL, A(FD), A(OUT)),
    CALL_NF(newfstatat, 5, normalise_stat, NULL, A(PLACE), A(PATH), A(OUT), AT_FLAGS),
    CALL_NF(statx, 5, normalise_statx, NULL, A(PLACE), A(PATH), SOME(AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 0x2000, 0x4000), ONE(0x7ff, 0, 0xfff, 0x80000000), A(OUT)),
    CALL_NF(statfs, 2, forget_output, NULL, A(PATH), A(OUT)),
    CALL_NF(fstatfs, 2, forget_output, NULL, A(FD), A(OUT)),
    CALL_NF(getdents64, 5, normalise_entries, NULL, A(FD), A(OUT), A(SIZE)),
    CALL_NF(getdents, 2, normalise_old_entries, NULL, A(FD), A(OUT), A(SIZE)),
    CALL_NF(getcwd, 2, forget_output_and_size, NULL, A(OUT), ONE(0, 1, 2, 4096, 8000)),
    CALL(chdir, 2, A(PATH)),
    CALL(fchdir, 2, ONE(0, 1, 2, 4, 5, 7, 9, -1, 1000)),
    CALL(umask, 1, ONE(022)),
    CALL_NF(utimensat, 6, NULL, fill_times, A(PLACE), A(PATH), A(IN), AT_FLAGS),
    CALL_NF(futimesat, 2, NULL, fill_times, A(PLACE), A(PATH), A(IN)),
    CALL_NF(utimes, 2, NULL, fill_times, A(PATH), A(IN)),
    CALL_NF(utime, 2, NULL, fill_times, A(PATH), A(IN)),
    CALL_NF(flock, 4, NULL, fill_flock, A(FD), ONE(LOCK_SH | LOCK_NB, LOCK_EX | LOCK_NB, LOCK_UN, LOCK_EX, 0, 16, 32)),
    CALL(memfd_create, 2, A(TEXT), ONLY(0, 1, 2, 3, 8, 0x10, 0x100)),
    CALL(getxattr, 3, A(PATH), A(TEXT), A(OUT), A(SIZE)),
    CALL(lgetxattr, 2, A(PATH), A(TEXT), A(OUT), A(SIZE)),
    CALL(fgetxattr, 3, A(FD), A(TEXT), A(OUT), A(SIZE)),
    CALL(setxattr, 3, A(PATH), A(TEXT), A(IN), A(SIZE), XFLAGS),
    CALL(fsetxattr, 3, A(FD), A(TEXT), A(IN), A(SIZE), XFLAGS),
    CALL(listxattr, 3, A(PATH), A(OUT), A(SIZE)),
    CALL(flistxattr, 2, A(FD), A(OUT), A(SIZE)),
    CALL(removexattr, 2, A(PATH), A(TEXT)),
    CALL(fremovexattr, 2, A(FD), A(TEXT)),
    // Descriptors.
    CALL(close, 3, ONE(30, 34, 35, 36, 37, 38, 39, 3, 10, 16, -1, 1000)),
    CALL(dup, 3, A(FD)),
    CALL(dup2, 3, A(FD), ONE(33, 36, 38, 39, -1, 64, 1000, INT_MAX)),
    CALL(dup3, 3, A(FD), ONE(33, 36, 38, 39, 3, -1, 64), SOME(O_CLOEXEC)),
    CALL(close_range, 2, ONLY(36, 38, 39, 64), ONLY(37, 39, 40, 1), ONE(0, 4, 2, 8)),
    CALL(fcntl, 8, A(FD), ONLY(F_GETFD, F_SETFD, F_GETFL, F_GETPIPE_SZ, F_GET_SEALS, F_GETOWN, F_DUPFD, F_DUPFD_CLOEXEC, F_GETSIG, F_GETLEASE, -1, 99),
         ONE(0, 1, 30, 39, 64, -1)),
    CALL_NF(fcntl, 5, NULL, fill_lock, A(FD), ONLY(F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK), A(IN)),
    CALL(fcntl, 3, A(FD), ONLY(F_SETPIPE_SZ, F_ADD_SEALS), ONE(0, 1, 2, 4096, 8192, -1, 1L << 31, 64)),
    CALL(fcntl, 3, A(FD), ONLY(F_SETFL), SOME(O_NONBLOCK, O_APPEND, O_RDWR, O_CREAT)),
    CALL(ioctl, 8, A(FD), ONLY(FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TCGETS, TIOCGWINSZ, SIOCATMARK_, FIGETBSZ_, 0x1234), A(OUT)),
    CALL(pipe2, 3, A(OUT), SOME(O_NONBLOCK, O_CLOEXEC)),
    CALL(eventfd2, 3, ONE(0, 1, -1), SOME(EFD_NONBLOCK, EFD_CLOEXEC, EFD_SEMAPHORE)),
    CALL(epoll_create, 1, ONE(0, 1, -1)),
    CALL(epoll_create1, 2, SOME(EPOLL_CLOEXEC, 1)),
    CALL_NF(epoll_ctl, 10, NULL, fill_event, A(FD), ONE(EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 0, 4), A(FD), A(IN)),
    CALL(epoll_wait, 6, A(FD), A(OUT), ONE(1, 2, 8, 0, -1, INT_MAX), ONE(0, 0, 0, 1, -1)),
    CALL_NF(epoll_pwait, 3, NULL, fill_mask, A(FD), A(OUT), ONE(1, 8, 0, -1), ONE(0), A(IN), SIGSET_SIZE),
    CALL_NF(poll, 8, tell_poll, fill_poll, A(OUT), ONE(0, 1, 3, 8, 65, -1), ONE(0, 0, 0, 1)),
    CALL_NF(ppoll, 4, tell_poll, fill_ppoll, A(OUT), ONE(0, 1, 3, 8, 65), A(IN), A(NOTHING), SIGSET_SIZE),
    CALL_NF(select, 6, NULL, fill_select, ONE(0, 1, 10, 40, 64, 1024, -1), A(OUT), A(OUT), A(NOTHING), A(IN)),
    CALL_NF(signalfd4, 3, NULL, fill_mask, ONE(-1, -1, 5, 30, 31, 32, 33), A(IN), SIGSET_SIZE, SOME(SFD_NONBLOCK, SFD_CLOEXEC)),
    CALL_NF(timerfd_create, 3, NULL, fill_clock, CLOCK, SOME(TFD_NONBLOCK, TFD_CLOEXEC)),
    CALL_NF(timerfd_settime, 5, forget_output, fill_timer, A(FD), SOME(TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET), A(IN), A(OUT)),
    CALL_NF(timerfd_gettime, 3, forget_output, NULL, A(FD), A(OUT)),
    // Sockets.
    CALL_NF(socket, 5, NULL, fill_family, ONE(AF_UNIX, AF_INET, AF_INET6, 0, 99, -1), ONE(SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM | SOCK_NONBLOCK, 0, 11, 0x100), ONE(0, 0, 6, 17, 1, -1)),
    CALL_NF(socketpair, 4, NULL, fill_family, ONE(AF_UNIX, AF_UNIX, AF_INET, 99), ONE(SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, 0, 11), ONE(0, 0, 1, 6), A(OUT)),
    CALL_NF(bind, 6, NULL, fill_address, A(FD), A(IN), ONE(110, 16, 28, 3, 2, 1, 0, -1, 129)),
    CALL_NF(connect, 6, NULL, fill_address, A(FD), A(IN), ONE(110, 16, 3, 2, 1, 0, -1, 129)),
    CALL(listen, 4, A(FD), ONE(0, 1, 5, -1)),
    CALL_NF(accept4, 5, forget_output, fill_length, A(FD), A(OUT), A(IN), SOME(SOCK_NONBLOCK, SOCK_CLOEXEC)),
    CALL_NF(getsockname, 4, forget_output, fill_length2, A(FD), A(OUT), A(IN)),
    CALL_NF(getpeername, 4, forget_output, fill_length2, A(FD), A(OUT), A(IN)),
    CALL_NF(sendto, 10, NULL, fill_address4, A(FD), A(IN), A(SIZE), SEND, A(IN), ONE(0, 0, 0, 110, 16, 2, -1)),
    CALL_NF(recvfrom, 10, normalise_read, NULL, A(FD), A(OUT), A(SIZE), RECEIVE, A(NOTHING), A(NOTHING)),
    CALL_NF(sendmsg, 6, NULL, fill_message, A(FD), A(IN), SEND),
    CALL_NF(recvmsg, 6, normalise_read, fill_message, A(FD), A(IN), RECEIVE),
    CALL_NF(sendmmsg, 3, NULL, fill_message, A(FD), A(IN), ONE(0, 1, 1), SEND),
    CALL(shutdown, 4, A(FD), ONE(SHUT_RD, SHUT_WR, SHUT_RDWR, 3, -1)),
    CALL_NF(getsockopt, 10, normalise_option, fill_length4, A(FD), ONLY(SOL_SOCKET, SOL_SOCKET, SOL_SOCKET, 99, -1),
            ONLY(SO_TYPE, SO_ERROR, SO_ACCEPTCONN, SO_DOMAIN, SO_PROTOCOL, SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER, SO_BROADCAST, SO_RCVTIMEO, SO_PASSCRED, 1, 9999), A(OUT), A(IN)),
    CALL_NF(setsockopt, 10, NULL, fill_option, A(FD), ONLY(SOL_SOCKET, SOL_SOCKET, SOL_SOCKET, 99, -1),
            ONLY(SO_REUSEADDR, SO_KEEPALIVE, SO_BROADCAST, SO_PASSCRED, SO_TYPE, SO_ERROR, SO_PRIORITY, 1, 9999), A(IN), ONE(4, 4, 4, 1, 0, 8, 3, -1)),
    // Memory.
    CALL_NF(mmap, 10, NULL, fill_mapped, A(ARENA), A(LENGTH), PROT, ONE(MAP_PRIVATE | MAP_ANONYMOUS, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, MAP_SHARED | MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, 0, MAP_ANONYMOUS, MAP_PRIVATE | MAP_SHARED),
         A(FD), ONE(0, 0, 4096, 1, -4096)),
    CALL(munmap, 10, A(ARENA), A(LENGTH)),
    CALL(mprotect, 10, A(ARENA), A(LENGTH), ONE(0, 1, 2, 3, 3, 3, 0x10, 0x1000000, 0x3000000, -1)),
    CALL_NF(mremap, 8, NULL, fill_remap, A(ARENA), A(LENGTH), A(LENGTH), ONE(0, 1, 2, 3, 4, 8)),
    CALL_NF(madvise, 8, NULL, fill_advice, A(ARENA), ONLY(0, 1, 4095, 4096, 8192, 16384, 65536, -1, -4096), ONLY(0, 1, 2, 3, 4, 8, 16, 17, 22, 23, -1, 99)),
    CALL(msync, 5, A(ARENA), A(LENGTH), ONE(0, MS_SYNC, MS_ASYNC, MS_INVALIDATE, MS_SYNC | MS_ASYNC, 8)),
    CALL_NF(mincore, 4, forget_output, NULL, A(ARENA), ONE(0, 1, 4096, 65536, -1, LONG_MIN), A(OUT)),
    CALL(munlock, 3, A(ARENA), ONE(0, 1, 4096, 16384, -1)),
    CALL(mlock2, 2, A(ARENA), ONLY(0, 1, 4096, 16384), ONLY(2, -1)),
    CALL(mlockall, 1, ONE(0, 4, 8, -1)),
    CALL(brk, 3, ONE(0, 1, -1, 4096)),
    CALL(remap_file_pages, 2, A(ARENA), A(LENGTH), ONE(0, 1), ONE(0, 1), ONE(0, 1)),
    // Signals.
    CALL_NF(kill, 4, NULL, fill_self, ONLY(0, 999999, -999999, INT_MIN), ONLY(0, 65, -1, SIGUSR1)),
    CALL_NF(tgkill, 4, NULL, fill_self, ONLY(0, 1, 2, -1), ONLY(0, 1, 2, -1), SIGNAL),
    CALL_NF(tkill, 3, NULL, fill_self, ONLY(0, 1, -1), SIGNAL),
    CALL_NF(rt_sigprocmask, 5, NULL, fill_mask, ONE(SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK, 3, -1), A(IN), A(OUT), SIGSET_SIZE),
    CALL(rt_sigpending, 3, A(OUT), ONE(8, 8, 0, 4, 16)),
    CALL_NF(rt_sigtimedwait, 4, forget_output, fill_timed_wait, A(IN), A(OUT), A(IN), SIGSET_SIZE),
    CALL_NF(rt_sigaction, 4, forget_output, fill_action, ONE(SIGWINCH, SIGCHLD, SIGKILL, SIGSTOP, 0, 65, -1, 64), A(IN), A(OUT), SIGSET_SIZE),
    CALL_NF(sigaltstack, 3, forget_output, fill_stack, A(IN), A(OUT)),
    CALL_NF(rt_sigqueueinfo, 3, NULL, fill_info, ONLY(0, 1, -1, 999999), SIGNAL, A(IN)),
    // Time.
    CALL_NF(clock_gettime, 4, forget_output, fill_clock, CLOCK, A(OUT)),
    CALL_NF(clock_getres, 3, forget_output, fill_clock, CLOCK, A(OUT)),
    CALL_NF(clock_settime, 2, NULL, fill_nap, ONLY(0, 1, 2, 4, 7, 11, 99), A(IN)),
    CALL_NF(clock_nanosleep, 4, NULL, fill_nap, ONLY(0, 1, 4, 5, 6, 7, 99), ONE(0, 1, 2), A(IN), A(OUT)),
    CALL_NF(nanosleep, 3, NULL, fill_nap, A(IN), A(OUT)),
    CALL_NF(gettimeofday, 2, forget_output, NULL, A(OUT), A(OUT)),
    CALL_NF(getitimer, 2, forget_output, NULL, WHO, A(OUT)),
    CALL_NF(setitimer, 2, forget_output, fill_timer, ONE(1, 2, 3, -1), A(IN), A(OUT)),
    CALL_NF(timer_create, 3, forget_output, fill_clock, CLOCK, A(IN), A(OUT)),
    CALL_NF(timer_settime, 2, forget_output, fill_timer, ONE(0, 1, 99, -1), ONE(0, 1, 2), A(IN), A(OUT)),
    CALL_NF(timer_gettime, 2, forget_output, NULL, ONE(0, 1, 99, -1), A(OUT)),
    CALL(timer_getoverrun, 1, ONE(0, 1, 99, -1)),
    CALL(timer_delete, 1, ONE(0, 1, 2, 99, -1)),
    CALL_NF(times, 1, forget_result, NULL, A(OUT)),
    // The process.
    CALL(getpriority, 2, WHO, ONLY(0, -1, 999999)),
    CALL(setpriority, 2, WHO, ONLY(0, 999999), ONLY(0, 5)),
    CALL_NF(getrlimit, 3, forget_output, NULL, ONE(0, 3, 7, 15, 16, -1), A(OUT)),
    CALL_NF(setrlimit, 3, NULL, fill_limit, ONE(4, 16, -1, 99), A(IN)),
    CALL_NF(prlimit64, 3, forget_output, fill_limit, ONLY(0, 999999, -1), ONLY(4, 16, 99), A(IN), A(OUT)),
    CALL_NF(getrusage, 2, forget_output, NULL, ONE(0, -1, 1, 2, -2), A(OUT)),
    CALL_NF(uname, 1, forget_output, NULL, A(OUT)),
    CALL_NF(sysinfo, 1, forget_output, NULL, A(OUT)),
    CALL(getuid, 1), CALL(getgid, 1), CALL(geteuid, 1), CALL(getegid, 1),
    CALL(setuid, 1, ID), CALL(setgid, 1, ID), CALL(setreuid, 1, ID, ID), CALL(setresuid, 1, ID, ID, ID), CALL(setresgid, 1, ID, ID, ID),
    CALL(setfsuid, 1, ID), CALL(setfsgid, 1, ID),
    CALL(getresuid, 1, A(OUT), A(OUT), A(OUT)),
    CALL(getgroups, 2, ONE(0, 1, 64, -1), A(OUT)),
    CALL(setgroups, 1, ONE(0, 1, 70000), A(IN)),
    CALL_NF(getpgid, 2, forget_result, NULL, ONLY(0, 999999, -1)),
    CALL_NF(getsid, 2, forget_result, NULL, ONLY(0, 999999, -1)),
    CALL(sched_getscheduler, 2, ONLY(0, 999999, -1)),
    CALL(sched_getparam, 2, ONLY(0, 999999, -1), A(OUT)),
    CALL_NF(sched_setscheduler, 3, NULL, fill_zero, ONLY(0, 999999, -1), ONLY(0, 1, 2, 3, 5, 99, -1), A(IN)),
    CALL_NF(sched_setparam, 2, NULL, fill_zero, ONLY(0, 999999, -1), A(IN)),
    CALL(sched_get_priority_max, 2, ONLY(0, 1, 2, 3, 5, 6, 99, -1)),
    CALL(sched_get_priority_min, 2, ONLY(0, 1, 2, 3, 5, 6, 99, -1)),
    CALL_NF(sched_rr_get_interval, 2, forget_output, NULL, ONLY(0, 999999, -1), A(OUT)),
    CALL_NF(sched_getaffinity, 2, forget_output_and_size, fill_room, ONLY(0, 999999), ONLY(0, 1, 8, 128), A(OUT)),
    CALL(prctl, 4, ONLY(PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_NO_NEW_PRIVS, PR_GET_TIMERSLACK, PR_GET_SECCOMP, 999, -1), A(NOTHING)),
    CALL(prctl, 2, ONLY(PR_SET_NAME, PR_GET_NAME, PR_GET_PDEATHSIG), A(OUT)),
    CALL_NF(getrandom, 3, forget_output, NULL, A(OUT), ONE(0, 1, 16, 256, 4096), SOME(GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE)),
    CALL_NF(futex, 5, NULL, fill_futex, A(OUT), ONE(0, 1, 128, 129, 3, 4, 5, 9, 10, 99), ONE(0, 1, -1), A(NOTHING), A(OUT), ONE(0, 1)),
    CALL(wait4, 2, ONLY(-1, 0, 999999, INT_MIN), A(OUT), ONLY(0, 1, 2, 0x100, 3)),
    CALL(waitid, 2, ONLY(0, 1, 2, 3, 99), ONLY(0, 1, 999999), A(OUT), ONLY(0, 4, 5, 1, 0x100)),
    CALL(personality, 1, ONLY(-1 & 0xffffffff, 0)),
    CALL(ioprio_get, 1, ONLY(1, 2, 0, 4), ONLY(0, 999999)),
    CALL(membarrier, 2, ONLY(1, 8, 999, -1), ONLY(0, 1)),
    CALL(get_robust_list, 1, ONLY(999999, -1), A(OUT), A(OUT)),
    CALL(set_robust_list, 1, A(NOTHING), ONE(0, 1, 23)),
};
const int call_count = sizeof calls / sizeof *calls;
