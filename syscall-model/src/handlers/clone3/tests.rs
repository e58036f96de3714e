//! Tests of `clone3`: what it refuses, and what the process it makes is like.

use super::word;
use crate::effect::Effect;
use crate::fd::Kind;
use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::object::{Object, Touch};
use crate::signals::{Action, SIG_IGN, Signals};
use crate::testing::{BASE, Kernel};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

const SIZE: u64 = 88;
const CLEAR: u64 = super::CLEAR_HANDLERS;
const PIDFD: u64 = libc::CLONE_PIDFD as u64;

fn with(kernel: &mut Kernel, words: &[(usize, u64)]) {
    kernel.mem.write(BASE, &[0; 128]).unwrap();
    for &(word, value) in words {
        kernel.mem.write_u64(BASE + word as u64 * 8, value).unwrap();
    }
}

fn refusal(words: &[(usize, u64)], size: u64) -> Errno {
    let mut kernel = Kernel::new();
    with(&mut kernel, words);
    kernel.call(Sysno::clone3, &[BASE, size]).unwrap_err()
}

#[test]
fn bad_arguments_are_refused_as_by_the_kernel() {
    assert_eq!(refusal(&[], 56), Errno::EINVAL);
    assert_eq!(refusal(&[], 8192), Errno::E2BIG);
    assert_eq!(refusal(&[(11, 1)], 96), Errno::E2BIG);
    assert_eq!(refusal(&[(word::EXIT_SIGNAL, 65)], SIZE), Errno::EINVAL);
    assert_eq!(refusal(&[(word::STACK, BASE)], SIZE), Errno::EINVAL);
    assert_eq!(refusal(&[(word::STACK_SIZE, 4096)], SIZE), Errno::EINVAL);
    assert_eq!(refusal(&[(word::FLAGS, 1 << 40)], SIZE), Errno::EINVAL);
    assert_eq!(
        refusal(&[(word::FLAGS, libc::SIGCHLD as u64)], SIZE),
        Errno::EINVAL
    );
    let parent = [(word::FLAGS, libc::CLONE_PARENT as u64), (word::EXIT_SIGNAL, 17)];
    assert_eq!(refusal(&parent, SIZE), Errno::EINVAL);
    let thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    assert_eq!(refusal(&[(word::FLAGS, thread as u64)], SIZE), Errno::ENOSYS);
}

#[test]
fn the_child_begins_on_its_own_stack_without_handlers() {
    let mut kernel = Kernel::new();
    let handled = Action {
        handler: 0x4000,
        ..Action::default()
    };
    let ignored = Action {
        handler: SIG_IGN,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, libc::SIGUSR1, handled);
    Signals::set_action(&mut kernel.model, libc::SIGUSR2, ignored);
    with(
        &mut kernel,
        &[
            (word::FLAGS, CLEAR),
            (word::EXIT_SIGNAL, libc::SIGCHLD as u64),
            (word::STACK, 0x7000),
            (word::STACK_SIZE, 0x1000),
        ],
    );
    let made = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::clone3, &[BASE, SIZE]);
    let Ok(Effect::Fork(fork)) = made else {
        panic!("clone3 gave {made:?}");
    };
    assert_eq!(fork.stack, 0x8000);
    kernel.model.enter(fork.child);
    assert_eq!(kernel.model.signals.action(libc::SIGUSR1), Action::default());
    assert_eq!(kernel.model.signals.action(libc::SIGUSR2).handler, SIG_IGN);
    assert_eq!(kernel.model.process.news.exit_signal, libc::SIGCHLD);
}

#[test]
fn only_its_maker_has_the_descriptor_of_a_child() {
    let mut kernel = Kernel::new();
    with(&mut kernel, &[(word::FLAGS, PIDFD), (word::PIDFD, BASE + 256)]);
    let prepared = kernel.prepare(Kernel::MAIN, Sysno::clone3, &[BASE, SIZE]);
    assert!(prepared.touches.contains(&Touch::write(Object::FdTable)));
    let made = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::clone3, &[BASE, SIZE]);
    let Ok(Effect::Fork(fork)) = made else {
        panic!("clone3 gave {made:?}");
    };
    assert_eq!(kernel.mem.read_u32(BASE + 256).unwrap(), 3);
    let (_, description) = kernel.model.files.lookup(3).unwrap();
    assert_eq!(description.kind, Kind::PidFd(fork.child));
    kernel.model.enter(fork.child);
    assert_eq!(kernel.model.files.lookup(3), Err(Errno::EBADF));
}

#[test]
fn a_sibling_has_the_parent_and_the_signal_of_its_maker() {
    let mut kernel = Kernel::new();
    with(&mut kernel, &[(word::FLAGS, libc::CLONE_PARENT as u64)]);
    let made = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::clone3, &[BASE, SIZE]);
    let Ok(Effect::Fork(fork)) = made else {
        panic!("clone3 gave {made:?}");
    };
    let (own, child) = (
        &kernel.model.process,
        kernel.model.process_at(fork.child).unwrap(),
    );
    assert_eq!(
        (child.parent, child.news.exit_signal),
        (own.parent, own.news.exit_signal)
    );
}
