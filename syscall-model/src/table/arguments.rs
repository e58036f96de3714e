//! A call in text, as `strace` would show it: arguments by their kind, flags and errors by name.

use super::constants::{self, Names};
use super::lookup;
use crate::call::Call;
use syscalls::{Errno, Sysno};

/// An argument of a call: its name in the manual, and what its value means.
#[derive(Clone, Copy)]
pub struct Arg {
    pub name: &'static str,
    pub kind: Kind,
}

/// What the value of an argument means.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A descriptor, or `AT_FDCWD`.
    Fd,
    /// An address in the memory of the program.
    Pointer,
    /// A 32-bit number with a sign.
    Int,
    /// A 64-bit number with a sign: an offset, a length.
    Long,
    /// A number without a sign.
    Size,
    /// A 32-bit number without a sign.
    Uint,
    /// A number or an address: only the program knows.
    Word,
    /// Permissions.
    Octal,
    Signal,
    /// One of several constants, flags, or both.
    Named(&'static Names),
    /// It depends on the other arguments.
    By(fn(&[u64; 6]) -> Kind),
    /// The call does not look at it.
    Absent,
}

/// The arguments of a row: `args![fd: Fd, buf: Pointer]`.
macro_rules! args {
    ($($name:ident: $kind:expr),*) => { &[$(Arg { name: stringify!($name), kind: $kind }),*] };
}
pub(super) use args;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Detail by the name of the argument, since they differ between machines and tell a reader little; no long lists of flags.
    Short,
    /// Detail as numbers, all flags.
    Full,
}

/// The call with its arguments: `read(3, buf, 63)`.
pub fn describe(call: &Call, detail: Detail) -> String {
    let args = describe_args(call, detail);
    let args = match detail {
        Detail::Short => join_shortly(&args),
        Detail::Full => args.join(", "),
    };
    format!("{}({args})", call.sysno.name())
}

/// As many arguments as fit into a column of a table.
pub fn join_shortly(args: &[String]) -> String {
    const WIDTH: usize = 40;
    let mut text = String::new();
    for arg in args {
        let separator = if text.is_empty() { "" } else { ", " };
        if text.chars().count() + separator.len() + arg.chars().count() > WIDTH {
            text.push_str(separator);
            text.push('…');
            break;
        }
        text.push_str(separator);
        text.push_str(arg);
    }
    text
}

/// The arguments that the call has, each in text.
pub fn describe_args(call: &Call, detail: Detail) -> Vec<String> {
    let args = lookup(call.sysno).args.iter().zip(call.args);
    args.filter_map(|(arg, value)| arg.describe(value, &call.args, detail))
        .collect()
}

/// What the call returned: a number, an address, or the name of an error.
pub fn describe_result(sysno: Sysno, result: i64, detail: Detail) -> String {
    match result {
        -4095..=-1 => error_name(-result as i32),
        _ if !lookup(sysno).memory.returns_address() => result.to_string(),
        _ => match detail {
            Detail::Short => "…".to_owned(),
            Detail::Full => format!("{result:#x}"),
        },
    }
}

/// An error as the kernel returns it: `-EAGAIN`.
pub fn error_name(errno: i32) -> String {
    match Errno::new(errno).name() {
        Some(name) => format!("-{name}"),
        None => format!("-{errno}"),
    }
}

impl Arg {
    fn describe(&self, value: u64, args: &[u64; 6], detail: Detail) -> Option<String> {
        let address = || match detail {
            Detail::Short => self.name.to_owned(),
            Detail::Full => format!("{value:#x}"),
        };
        let kind = match self.kind {
            Kind::By(kind_of) => kind_of(args),
            kind => kind,
        };
        Some(match kind {
            Kind::Fd if value as i32 == libc::AT_FDCWD => "AT_FDCWD".to_owned(),
            Kind::Fd | Kind::Int => (value as i32).to_string(),
            Kind::Pointer if value == 0 => "NULL".to_owned(),
            Kind::Pointer => address(),
            Kind::Long => (value as i64).to_string(),
            Kind::Size => size(value),
            Kind::Uint => (value as u32).to_string(),
            Kind::Word => match value as i64 {
                small @ -4096..=0xf_ffff => small.to_string(),
                _ => address(),
            },
            Kind::Octal => format!("{:#05o}", value as u32).replacen("0o", "0", 1),
            Kind::Signal => constants::SIGNALS.describe(value as u32),
            Kind::Named(names) => match detail {
                Detail::Short => names.describe_shortly(value as u32),
                Detail::Full => names.describe(value as u32),
            },
            Kind::By(_) | Kind::Absent => return None,
        })
    }
}

/// Sizes beyond what any memory has are mistakes, or bits: they are easier to read in hexadecimal.
fn size(value: u64) -> String {
    match value {
        0..=0xff_ffff_ffff => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TABLE;

    fn text(sysno: Sysno, args: [u64; 6]) -> String {
        describe(&Call::new(sysno, args), Detail::Short)
    }

    #[test]
    fn calls_read_as_in_the_manual() {
        let at_cwd = libc::AT_FDCWD as u64;
        let cases = [
            (Sysno::read, [3, 0x7fff_0000, 63, 9, 9, 9], "read(3, buf, 63)"),
            (
                Sysno::openat,
                [at_cwd, 0x4000_0000, 0o2_000_000, 0, 0, 0],
                "openat(AT_FDCWD, pathname, O_RDONLY|O_CLOEXEC)",
            ),
            (
                Sysno::open,
                [0x4000_0000, 0o1101, 0o644, 0, 0, 0],
                "open(pathname, O_WRONLY|O_CREAT|O_TRUNC, 0644)",
            ),
            (
                Sysno::mmap,
                [0, 8192, 3, 0x22, u64::MAX, 0],
                "mmap(NULL, 8192, PROT_READ|PROT_WRITE, …)",
            ),
            (
                Sysno::recvfrom,
                [4, 0x4000_0000, 10, 0x42, 0, 0],
                "recvfrom(4, buf, 10, MSG_PEEK|MSG_DONTWAIT, NULL, …)",
            ),
            (
                Sysno::futex,
                [0x4000_0000, 129, 1, 7, 7, 7],
                "futex(uaddr, FUTEX_WAKE_PRIVATE, 1)",
            ),
            (
                Sysno::futex,
                [0x4000_0000, 393, 2, 0, 0, 0xffff_ffff],
                "futex(uaddr, FUTEX_WAIT_BITSET_PRIVATE|…, 2, …)",
            ),
            (
                Sysno::epoll_ctl,
                [3, 1, 5, 0x4000_0000, 0, 0],
                "epoll_ctl(3, EPOLL_CTL_ADD, 5, event)",
            ),
            (
                Sysno::socket,
                [2, 0o4001, 0, 0, 0, 0],
                "socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK, 0)",
            ),
            (
                Sysno::fcntl,
                [3, 4, 0o4002, 0, 0, 0],
                "fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK)",
            ),
            (Sysno::fcntl, [3, 3, 77, 0, 0, 0], "fcntl(3, F_GETFL)"),
            (Sysno::kill, [-1_i64 as u64, 15, 0, 0, 0, 0], "kill(-1, SIGTERM)"),
            (
                Sysno::setsockopt,
                [3, 1, 2, 0x4000_0000, 4, 0],
                "setsockopt(3, SOL_SOCKET, SO_REUSEADDR, optval, 4)",
            ),
            (
                Sysno::clone,
                [0x0100_0011, 0, 0, 0x4000_0000, 0, 0],
                "clone(CLONE_CHILD_SETTID|SIGCHLD, NULL, NULL, …)",
            ),
            (
                Sysno::clone,
                [0x003d_0f00, 0x4000_0000, 0x4000_0000, 0x4000_0000, 0x4000_0000, 0],
                "clone(CLONE_THREAD|…, stack, parent_tid, …)",
            ),
            (Sysno::sched_yield, [1; 6], "sched_yield()"),
        ];
        for (sysno, args, expected) in cases {
            assert_eq!(text(sysno, args), expected);
        }
    }

    #[test]
    fn in_full_nothing_is_left_out() {
        let call = Call::new(Sysno::mmap, [0x1000, 8192, 3, 0x22, u64::MAX, 0]);
        assert_eq!(
            describe(&call, Detail::Full),
            "mmap(0x1000, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)"
        );
        let call = Call::new(Sysno::clone, [0x003d_0f00, 0, 0, 0, 0, 0]);
        assert_eq!(
            describe(&call, Detail::Full),
            "clone(CLONE_THREAD|CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_SYSVSEM|CLONE_SETTLS|\
             CLONE_PARENT_SETTID|CLONE_CHILD_CLEARTID, NULL, NULL, NULL, NULL)"
        );
    }

    #[test]
    fn flags_without_a_name_are_shown_as_bits() {
        assert_eq!(
            text(Sysno::accept4, [3, 0, 0, 0o4000 | 0x10, 0, 0]),
            "accept4(3, NULL, NULL, SOCK_NONBLOCK|0x10)"
        );
        assert_eq!(text(Sysno::shutdown, [3, 9, 0, 0, 0, 0]), "shutdown(3, 9)");
    }

    #[test]
    fn results_are_numbers_addresses_or_errors() {
        let named = |sysno, result| describe_result(sysno, result, Detail::Short);
        assert_eq!(named(Sysno::read, -11), "-EAGAIN");
        assert_eq!(named(Sysno::read, 5_000_000), "5000000");
        assert_eq!(named(Sysno::mmap, 0x7fff_f7dd_0000), "…");
        let full = describe_result(Sysno::mmap, 0x7fff_f7dd_0000, Detail::Full);
        assert_eq!(full, "0x7ffff7dd0000");
    }

    #[test]
    fn no_call_has_more_arguments_than_registers() {
        for row in &TABLE {
            assert!(row.args.len() <= 6, "{}", row.sysno.name());
        }
    }

    #[test]
    fn what_the_kernel_reads_or_fills_is_behind_a_pointer() {
        for row in &TABLE {
            for buffer in row.buffers {
                let kind = row.args.get(buffer.argument()).map(|arg| arg.kind);
                let name = row.sysno.name();
                assert!(
                    matches!(kind, Some(Kind::Pointer)),
                    "{name}: {}",
                    buffer.argument()
                );
            }
        }
    }
}
