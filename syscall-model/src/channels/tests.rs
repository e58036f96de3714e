//! Channels by their calls, without ptrace: blocking, deadlines, masks, descriptors in flight.

use crate::effect::{Effect, Outcome};
use crate::fd::PollEvents;
use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::object::{Access, Object};
use crate::signals::{Signals, bit};
use crate::testing::{BASE, Kernel};
use crate::thread::Tid;
use crate::wait::{OnSignal, WaitFor, Wake};
use syscalls::{Errno, Sysno};

const MAIN: Tid = Kernel::MAIN;
const FDS: u64 = BASE;
const TIME: u64 = BASE + 0x40;
const SET: u64 = BASE + 0x80;
const HEADER: u64 = BASE + 0x100;
const IOV: u64 = BASE + 0x200;
const CONTROL: u64 = BASE + 0x300;
const BUFFER: u64 = BASE + 0x1000;
const SECOND: u64 = 1_000_000_000;

fn kernel() -> Kernel {
    let mut kernel = Kernel::new();
    kernel.mem = crate::memory::FlatMemory::new(BASE, 0x4_0000);
    kernel
}

fn two(kernel: &Kernel) -> (u64, u64) {
    let fd = |at| u64::from(kernel.mem.read_u32(at).unwrap());
    (fd(FDS), fd(FDS + 4))
}

fn pipe(kernel: &mut Kernel) -> (u64, u64) {
    assert_eq!(kernel.call(Sysno::pipe, &[FDS]), Ok(0));
    two(kernel)
}

fn pair(kernel: &mut Kernel, kind: i32) -> (u64, u64) {
    let args = [libc::AF_UNIX as u64, kind as u64, 0, FDS];
    assert_eq!(kernel.call(Sysno::socketpair, &args), Ok(0));
    two(kernel)
}

fn write(kernel: &mut Kernel, fd: u64, data: &[u8]) -> Result<i64, Errno> {
    kernel.mem.write(BUFFER, data).unwrap();
    kernel.call(Sysno::write, &[fd, BUFFER, data.len() as u64])
}

fn read(kernel: &mut Kernel, fd: u64, max: usize) -> Result<Vec<u8>, Errno> {
    let n = kernel.call(Sysno::read, &[fd, BUFFER, max as u64])?;
    Ok(kernel.mem.read_vec(BUFFER, n as usize).unwrap())
}

/// Runs a parked thread's call as the supervisor does, and parks it again if it goes on waiting.
fn step(kernel: &mut Kernel, tid: Tid, sysno: Sysno, args: &[u64]) -> Outcome {
    let wake = kernel.model.wake_reason(tid).expect("the thread can run");
    kernel.model.thread_mut(tid).wait = None;
    let outcome = kernel.run(tid, wake, sysno, args);
    if let Ok(Effect::Block(wait)) = &outcome {
        kernel.model.thread_mut(tid).wait = Some(wait.clone());
    }
    outcome
}

#[test]
fn a_large_write_goes_on_where_it_stopped() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    let other = k.thread();
    let args = [writer, BUFFER, 100_000];
    k.park(other, Sysno::write, &args);
    assert!(matches!(
        step(&mut k, other, Sysno::write, &args),
        Ok(Effect::Block(_))
    ));
    assert_eq!(k.model.thread(other).partial_result(), Some(65536));
    assert_eq!(k.model.wake_reason(other), None);
    assert_eq!(k.call(Sysno::read, &[reader, BUFFER, 60_000]), Ok(60_000));
    assert_eq!(
        step(&mut k, other, Sysno::write, &args),
        Ok(Effect::Done(100_000))
    );
    assert_eq!(k.model.thread(other).call.progress, 0);
    assert_eq!(k.call(Sysno::ioctl, &[reader, libc::FIONREAD, TIME]), Ok(0));
    assert_eq!(k.mem.read_u32(TIME), Ok(40_000));
}

#[test]
fn a_reader_waits_for_data_or_the_last_writer() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    let other = k.thread();
    let args = [reader, BUFFER, 10];
    k.park(other, Sysno::read, &args);
    assert_eq!(k.model.wake_reason(other), None);
    write(&mut k, writer, b"x").unwrap();
    assert_eq!(step(&mut k, other, Sysno::read, &args), Ok(Effect::Done(1)));
    k.park(other, Sysno::read, &args);
    assert_eq!(k.model.wake_reason(other), None);
    k.call(Sysno::close, &[writer]).unwrap();
    assert_eq!(step(&mut k, other, Sysno::read, &args), Ok(Effect::Done(0)));
    k.call(Sysno::close, &[reader]).unwrap();
    assert!(k.model.channels.is_empty());
}

#[test]
fn a_write_without_reader_raises_the_signal() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    k.call(Sysno::close, &[reader]).unwrap();
    let outcome = k.run(MAIN, Wake::Ready, Sysno::write, &[writer, BUFFER, 1]);
    assert_eq!(outcome, Ok(Effect::DoneCheckSignals(-32)));
    assert_eq!(
        k.model.signals.deliverable(k.model.thread(MAIN)),
        Some(libc::SIGPIPE)
    );

    let mut k = kernel();
    let (one, two) = pair(&mut k, libc::SOCK_STREAM);
    k.call(Sysno::close, &[two]).unwrap();
    let quiet = [one, BUFFER, 1, libc::MSG_NOSIGNAL as u64];
    assert_eq!(
        k.run(MAIN, Wake::Ready, Sysno::sendto, &quiet),
        Ok(Effect::DoneCheckSignals(-32))
    );
    assert_eq!(k.model.signals.deliverable(k.model.thread(MAIN)), None);
}

#[test]
fn an_eventfd_write_that_would_overflow_waits() {
    let mut k = kernel();
    let fd = k.call(Sysno::eventfd2, &[5, 0]).unwrap() as u64;
    let other = k.thread();
    k.mem.write_u64(BUFFER, u64::MAX - 3).unwrap();
    let args = [fd, BUFFER, 8];
    k.park(other, Sysno::write, &args);
    // Poll shows room, but not for this much.
    assert!(
        k.model
            .poll(k.model.files.lookup(fd as i32).unwrap().0)
            .contains(PollEvents::OUT)
    );
    assert_eq!(k.model.wake_reason(other), None);
    assert_eq!(k.call(Sysno::read, &[fd, BUFFER + 8, 8]), Ok(8));
    assert_eq!(step(&mut k, other, Sysno::write, &args), Ok(Effect::Done(8)));
}

#[test]
fn timers_expire_on_the_virtual_clock() {
    let mut k = kernel();
    let fd = k
        .call(Sysno::timerfd_create, &[libc::CLOCK_MONOTONIC as u64, 0])
        .unwrap() as u64;
    k.mem.write_timespec(TIME, SECOND).unwrap();
    k.mem.write_timespec(TIME + 16, 2 * SECOND).unwrap();
    assert_eq!(k.call(Sysno::timerfd_settime, &[fd, 0, TIME, 0]), Ok(0));
    let start = k.model.clock.now();
    let args = [fd, BUFFER, 8];
    k.park(MAIN, Sysno::read, &args);
    assert_eq!(k.model.wake_reason(MAIN), None);
    assert_eq!(k.model.next_deadline(), Some(start + 2 * SECOND));
    k.model.advance_clock(start + 2 * SECOND);
    // Due and unread: time alone changes nothing more.
    assert_eq!(k.model.next_deadline(), None);
    k.model.advance_clock(start + 4 * SECOND);
    assert_eq!(step(&mut k, MAIN, Sysno::read, &args), Ok(Effect::Done(8)));
    assert_eq!(k.mem.read_u64(BUFFER), Ok(3));
    assert_eq!(k.call(Sysno::timerfd_gettime, &[fd, TIME]), Ok(0));
    assert_eq!(k.mem.read_timespec(TIME + 16), Ok(SECOND));
}

#[test]
fn a_signalfd_reads_blocked_signals() {
    let mut k = kernel();
    k.mem.write_u64(SET, bit(libc::SIGUSR1)).unwrap();
    k.call(Sysno::rt_sigprocmask, &[libc::SIG_BLOCK as u64, SET, 0, 8])
        .unwrap();
    let fd = k.call(Sysno::signalfd4, &[u64::MAX, SET, 8, 0]).unwrap() as u64;
    let args = [fd, BUFFER, 256];
    k.park(MAIN, Sysno::read, &args);
    assert_eq!(k.model.wake_reason(MAIN), None);
    Signals::raise(&mut k.model, MAIN, libc::SIGUSR1);
    assert_eq!(step(&mut k, MAIN, Sysno::read, &args), Ok(Effect::Done(128)));
    assert_eq!(k.mem.read_u32(BUFFER), Ok(libc::SIGUSR1 as u32));
    let short = k.run(MAIN, Wake::Ready, Sysno::read, &[fd, BUFFER, 100]);
    assert_eq!(short, Err(Errno::EINVAL));
}

#[test]
fn poll_keeps_the_deadline_that_it_parked_with() {
    let mut k = kernel();
    let (reader, _) = pipe(&mut k);
    k.mem.write_u64(FDS, reader | 1 << 32).unwrap();
    let args = [FDS, 1, 2000];
    let start = k.model.clock.now();
    k.park(MAIN, Sysno::poll, &args);
    assert_eq!(k.model.next_deadline(), Some(start + 2 * SECOND));
    k.model.advance_clock(start + SECOND);
    // Run without need, it waits on for what is left.
    let again = k.run(MAIN, Wake::Ready, Sysno::poll, &args);
    assert!(matches!(again, Ok(Effect::Block(wait)) if wait.deadline == Some(start + 2 * SECOND)));
    k.model.advance_clock(start + 2 * SECOND);
    assert_eq!(k.model.wake_reason(MAIN), Some(Wake::TimedOut));
    assert_eq!(step(&mut k, MAIN, Sysno::poll, &args), Ok(Effect::Done(0)));
    assert_eq!(k.model.thread(MAIN).call.deadline, None);
}

#[test]
fn poll_knows_bad_and_ignored_entries() {
    let mut k = kernel();
    k.mem.write_u64(FDS, u64::from(u32::MAX) | 1 << 32).unwrap();
    k.mem.write_u64(FDS + 8, 99 | 1 << 32).unwrap();
    let args = [FDS, 2, u64::MAX];
    assert_eq!(k.prepare(MAIN, Sysno::poll, &args).wait, None);
    assert_eq!(k.call(Sysno::poll, &args), Ok(1));
    assert_eq!(k.mem.read_u64(FDS).unwrap() >> 48, 0);
    assert_eq!(
        k.mem.read_u64(FDS + 8).unwrap() >> 48,
        u64::from(PollEvents::NVAL.bits())
    );
}

#[test]
fn the_mask_of_ppoll_holds_while_it_waits() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    let other = k.thread();
    k.model.thread_mut(MAIN).signals.mask = bit(libc::SIGUSR1);
    k.mem.write_u64(FDS, reader | 1 << 32).unwrap();
    k.mem.write_timespec(TIME, 3 * SECOND).unwrap();
    k.mem.write_u64(SET, bit(libc::SIGUSR2)).unwrap();
    let args = [FDS, 1, TIME, SET, 8];
    k.park(MAIN, Sysno::ppoll, &args);
    let thread = k.model.thread(MAIN);
    assert_eq!(
        (thread.signals.mask, thread.signals.saved_mask),
        (bit(libc::SIGUSR2), Some(bit(libc::SIGUSR1)))
    );
    let wait = thread.wait.clone().unwrap();
    assert_eq!(wait.on_signal, OnSignal::InterruptWithRemainder(TIME));
    let now = k.model.clock.now();
    k.model.advance_clock(now + SECOND);
    k.mem.write(BUFFER, b"x").unwrap();
    k.call_as(other, Sysno::write, &[writer, BUFFER, 1]).unwrap();
    assert_eq!(
        step(&mut k, MAIN, Sysno::ppoll, &args),
        Ok(Effect::DoneCheckSignals(1))
    );
    let thread = k.model.thread(MAIN);
    assert_eq!(
        (thread.signals.mask, thread.signals.saved_mask),
        (bit(libc::SIGUSR1), None)
    );
    assert_eq!(k.mem.read_timespec(TIME), Ok(2 * SECOND));
}

#[test]
fn select_reports_sets_and_the_time_left() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    let bits = 1 << reader | 1 << writer;
    k.mem.write_u64(SET, bits).unwrap();
    k.mem.write_u64(SET + 8, bits).unwrap();
    k.mem.write_u64(TIME, 1).unwrap();
    k.mem.write_u64(TIME + 8, 500_000).unwrap();
    let args = [writer + 1, SET, SET + 8, 0, TIME];
    k.park(MAIN, Sysno::select, &args);
    assert_eq!(step(&mut k, MAIN, Sysno::select, &args), Ok(Effect::Done(1)));
    assert_eq!(k.mem.read_u64(SET), Ok(0));
    assert_eq!(k.mem.read_u64(SET + 8), Ok(1 << writer));
    assert_eq!(
        (k.mem.read_u64(TIME), k.mem.read_u64(TIME + 8)),
        (Ok(1), Ok(500_000))
    );
    k.mem.write_u64(SET, 1 << 60).unwrap();
    assert_eq!(k.call(Sysno::select, &[64, SET, 0, 0, 0]), Err(Errno::EBADF));
}

fn header(k: &mut Kernel, len: u64, control_len: u64) {
    k.mem.write(HEADER, &[0; 56]).unwrap();
    k.mem.write_u64(IOV, BUFFER).unwrap();
    k.mem.write_u64(IOV + 8, len).unwrap();
    for (at, value) in [(16, IOV), (24, 1), (32, CONTROL), (40, control_len)] {
        k.mem.write_u64(HEADER + at, value).unwrap();
    }
}

fn send_rights(k: &mut Kernel, socket: u64, fd: u64) {
    header(k, 1, 24);
    k.mem.write_u64(CONTROL, 20).unwrap();
    k.mem
        .write_u64(
            CONTROL + 8,
            libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32,
        )
        .unwrap();
    k.mem.write_u64(CONTROL + 16, fd).unwrap();
    assert_eq!(k.call(Sysno::sendmsg, &[socket, HEADER, 0]), Ok(1));
}

#[test]
fn descriptors_travel_and_live_on_in_flight() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    let (one, two) = pair(&mut k, libc::SOCK_STREAM);
    send_rights(&mut k, one, writer);
    write(&mut k, one, b"after").unwrap();
    k.call(Sysno::close, &[writer]).unwrap();
    header(&mut k, 10, 24);
    let flags = libc::MSG_CMSG_CLOEXEC as u64;
    // The read ends with the message that carried a descriptor.
    assert_eq!(k.call(Sysno::recvmsg, &[two, HEADER, flags]), Ok(1));
    assert_eq!(k.mem.read_u64(CONTROL), Ok(20));
    let received = k.mem.read_u32(CONTROL + 16).unwrap();
    assert!(k.model.files.descriptor(received as i32).unwrap().close_on_exec);
    write(&mut k, u64::from(received), b"through").unwrap();
    assert_eq!(read(&mut k, reader, 10), Ok(b"through".to_vec()));
    // One that is never received goes with the socket.
    send_rights(&mut k, one, u64::from(received));
    k.call(Sysno::close, &[u64::from(received)]).unwrap();
    k.call(Sysno::close, &[two]).unwrap();
    assert_eq!(read(&mut k, reader, 10), Ok(Vec::new()));
    for fd in [one, reader] {
        k.call(Sysno::close, &[fd]).unwrap();
    }
    assert!(k.model.channels.is_empty());
}

#[test]
fn a_descriptor_without_room_for_it_is_closed() {
    let mut k = kernel();
    let (reader, writer) = pipe(&mut k);
    let (one, two) = pair(&mut k, libc::SOCK_DGRAM);
    send_rights(&mut k, one, writer);
    k.call(Sysno::close, &[writer]).unwrap();
    header(&mut k, 10, 0);
    assert_eq!(k.call(Sysno::recvmsg, &[two, HEADER, 0]), Ok(1));
    assert_eq!(k.mem.read_u32(HEADER + 48), Ok(libc::MSG_CTRUNC as u32));
    assert_eq!(read(&mut k, reader, 10), Ok(Vec::new()));
}

#[test]
fn wait_all_collects_and_a_timeout_ends_it() {
    let mut k = kernel();
    let (one, two) = pair(&mut k, libc::SOCK_STREAM);
    k.mem.write_u64(TIME, 1).unwrap();
    k.mem.write_u64(TIME + 8, 0).unwrap();
    let option = [two, libc::SOL_SOCKET as u64, libc::SO_RCVTIMEO as u64, TIME, 16];
    assert_eq!(k.call(Sysno::setsockopt, &option), Ok(0));
    let other = k.thread();
    let into = BUFFER + 0x100;
    let args = [two, into, 4, libc::MSG_WAITALL as u64];
    write(&mut k, one, b"ab").unwrap();
    k.park(other, Sysno::recvfrom, &args);
    assert!(matches!(
        step(&mut k, other, Sysno::recvfrom, &args),
        Ok(Effect::Block(_))
    ));
    write(&mut k, one, b"cd").unwrap();
    assert_eq!(step(&mut k, other, Sysno::recvfrom, &args), Ok(Effect::Done(4)));
    assert_eq!(k.mem.read_vec(into, 4), Ok(b"abcd".to_vec()));
    k.park(other, Sysno::recvfrom, &args);
    let deadline = k.model.next_deadline().unwrap();
    k.model.advance_clock(deadline);
    assert_eq!(step(&mut k, other, Sysno::recvfrom, &args), Err(Errno::EAGAIN));
}

#[test]
fn truncated_records_tell_their_length() {
    let mut k = kernel();
    let (one, two) = pair(&mut k, libc::SOCK_SEQPACKET);
    write(&mut k, one, b"0123456789").unwrap();
    let peek = (libc::MSG_PEEK | libc::MSG_TRUNC) as u64;
    assert_eq!(k.call(Sysno::recvfrom, &[two, BUFFER, 4, peek]), Ok(10));
    header(&mut k, 4, 0);
    assert_eq!(k.call(Sysno::recvmsg, &[two, HEADER, 0]), Ok(4));
    assert_eq!(k.mem.read_u32(HEADER + 48), Ok(libc::MSG_TRUNC as u32));
}

#[test]
fn many_messages_in_one_call_wait_for_each_other() {
    let mut k = kernel();
    let (one, two) = pair(&mut k, libc::SOCK_DGRAM);
    for i in 0..2 {
        let at = HEADER + i * 64;
        k.mem.write(at, &[0; 64]).unwrap();
        k.mem.write_u64(IOV + i * 16, BUFFER + 0x100 * (i + 1)).unwrap();
        k.mem.write_u64(IOV + i * 16 + 8, 10).unwrap();
        k.mem.write_u64(at + 16, IOV + i * 16).unwrap();
        k.mem.write_u64(at + 24, 1).unwrap();
    }
    let other = k.thread();
    let args = [two, HEADER, 2, 0, 0];
    write(&mut k, one, b"first").unwrap();
    k.park(other, Sysno::recvmmsg, &args);
    assert!(matches!(
        step(&mut k, other, Sysno::recvmmsg, &args),
        Ok(Effect::Block(_))
    ));
    assert_eq!(k.model.thread(other).partial_result(), Some(1));
    write(&mut k, one, b"second").unwrap();
    assert_eq!(step(&mut k, other, Sysno::recvmmsg, &args), Ok(Effect::Done(2)));
    assert_eq!(k.mem.read_u32(HEADER + 56), Ok(5));
    assert_eq!(k.mem.read_vec(BUFFER + 0x200, 6), Ok(b"second".to_vec()));
}

#[test]
fn sockets_that_reach_nobody() {
    let mut k = kernel();
    let socket = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0];
    let fd = k.call(Sysno::socket, &socket).unwrap() as u64;
    k.mem.write(BUFFER, b"\x01\0/var/run/nscd/socket\0").unwrap();
    assert_eq!(k.call(Sysno::connect, &[fd, BUFFER, 23]), Err(Errno::ENOENT));
    let packets = [libc::AF_PACKET as u64, libc::SOCK_RAW as u64, 0];
    assert_eq!(k.call(Sysno::socket, &packets), Err(Errno::EPERM));
    let bluetooth = [libc::AF_BLUETOOTH as u64, libc::SOCK_RAW as u64, 0];
    assert_eq!(k.call(Sysno::socket, &bluetooth), Err(Errno::EAFNOSUPPORT));
    let inet = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    let fd = k.call(Sysno::socket, &inet).unwrap() as u64;
    k.mem.write(BUFFER, &loopback(80)).unwrap();
    assert_eq!(
        k.call(Sysno::connect, &[fd, BUFFER, 16]),
        Err(Errno::ECONNREFUSED)
    );
}

/// A `sockaddr_in` on this machine.
fn loopback(port: u16) -> Vec<u8> {
    let mut raw = vec![2, 0];
    raw.extend(port.to_be_bytes());
    raw.extend([127, 0, 0, 1]);
    raw.resize(16, 0);
    raw
}

#[test]
fn a_program_connects_to_itself() {
    let mut k = kernel();
    let inet = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    let listener = k.call(Sysno::socket, &inet).unwrap() as u64;
    k.mem.write(BUFFER, &loopback(80)).unwrap();
    assert_eq!(k.call(Sysno::bind, &[listener, BUFFER, 16]), Ok(0));
    let client = k.call(Sysno::socket, &inet).unwrap() as u64;
    assert_eq!(
        k.call(Sysno::connect, &[client, BUFFER, 16]),
        Err(Errno::ECONNREFUSED)
    );
    assert_eq!(k.call(Sysno::listen, &[listener, 1]), Ok(0));
    k.park(MAIN, Sysno::accept, &[listener, 0, 0]);
    assert_eq!(k.model.wake_reason(MAIN), None);
    k.model.thread_mut(MAIN).wait = None;
    assert_eq!(k.call(Sysno::connect, &[client, BUFFER, 16]), Ok(0));
    let server = k.call(Sysno::accept, &[listener, 0, 0]).unwrap() as u64;
    k.mem.write(BUFFER, b"hello").unwrap();
    assert_eq!(k.call(Sysno::write, &[client, BUFFER, 5]), Ok(5));
    assert_eq!(k.call(Sysno::read, &[server, BUFFER, 64]), Ok(5));
    assert_eq!(k.call(Sysno::shutdown, &[client, libc::SHUT_WR as u64]), Ok(0));
    assert_eq!(k.call(Sysno::read, &[server, BUFFER, 64]), Ok(0));
    assert_eq!(k.call(Sysno::close, &[client]), Ok(0));
    // The first write finds out, the second is told.
    assert_eq!(k.call(Sysno::write, &[server, BUFFER, 5]), Ok(5));
    let told = k.run(MAIN, Wake::Ready, Sysno::write, &[server, BUFFER, 5]);
    assert_eq!(told, Ok(Effect::DoneCheckSignals(-i64::from(libc::EPIPE))));
}

/// That a connect went through is told of the connection that it made, and of no other.
#[test]
fn a_socket_that_was_disconnected_connects_anew() {
    let mut k = kernel();
    let kind = (libc::SOCK_STREAM | libc::SOCK_NONBLOCK) as u64;
    let inet = [libc::AF_INET as u64, kind, 0];
    let listener = k.call(Sysno::socket, &inet).unwrap() as u64;
    k.mem.write(BUFFER, &loopback(80)).unwrap();
    assert_eq!(k.call(Sysno::bind, &[listener, BUFFER, 16]), Ok(0));
    assert_eq!(k.call(Sysno::listen, &[listener, 2]), Ok(0));
    let client = k.call(Sysno::socket, &inet).unwrap() as u64;
    let connect = [client, BUFFER, 16];
    assert_eq!(k.call(Sysno::connect, &connect), Err(Errno::EINPROGRESS));
    k.mem.write(IOV, &[libc::AF_UNSPEC as u8; 16]).unwrap();
    assert_eq!(k.call(Sysno::connect, &[client, IOV, 16]), Ok(0));
    assert_eq!(k.call(Sysno::connect, &connect), Err(Errno::EINPROGRESS));
    assert_eq!(k.call(Sysno::connect, &connect), Ok(0));
    assert_eq!(k.call(Sysno::connect, &connect), Err(Errno::EISCONN));
    // TCP does not know who is there.
    k.mem.write_u32(CONTROL, 12).unwrap();
    let ask = [
        client,
        libc::SOL_SOCKET as u64,
        libc::SO_PEERCRED as u64,
        IOV,
        CONTROL,
    ];
    assert_eq!(k.call(Sysno::getsockopt, &ask), Ok(0));
    assert_eq!(k.mem.read_u32(IOV), Ok(0));
}

fn epoll_add(k: &mut Kernel, epoll: u64, fd: u64, events: i32) -> Result<i64, Errno> {
    k.mem.write_u32(BUFFER, events as u32).unwrap();
    k.mem.write_u64(BUFFER + 4, fd).unwrap();
    k.call(Sysno::epoll_ctl, &[epoll, libc::EPOLL_CTL_ADD as u64, fd, BUFFER])
}

#[test]
fn sets_in_sets_and_timers_wake_a_waiter() {
    let mut k = kernel();
    let outer = k.call(Sysno::epoll_create1, &[0]).unwrap() as u64;
    let inner = k.call(Sysno::epoll_create1, &[0]).unwrap() as u64;
    let timer = k
        .call(Sysno::timerfd_create, &[libc::CLOCK_MONOTONIC as u64, 0])
        .unwrap() as u64;
    assert_eq!(epoll_add(&mut k, outer, inner, libc::EPOLLIN), Ok(0));
    assert_eq!(epoll_add(&mut k, inner, outer, libc::EPOLLIN), Err(Errno::ELOOP));
    assert_eq!(
        epoll_add(&mut k, inner, timer, libc::EPOLLIN | libc::EPOLLET),
        Ok(0)
    );
    k.mem.write_timespec(TIME, SECOND).unwrap();
    k.mem.write_timespec(TIME + 16, SECOND).unwrap();
    k.call(Sysno::timerfd_settime, &[timer, 0, TIME, 0]).unwrap();
    let args = [outer, BUFFER, 4, u64::MAX];
    k.park(MAIN, Sysno::epoll_wait, &args);
    assert_eq!(k.model.wake_reason(MAIN), None);
    let due = k.model.next_deadline().unwrap();
    k.model.advance_clock(due);
    assert_eq!(step(&mut k, MAIN, Sysno::epoll_wait, &args), Ok(Effect::Done(1)));
    assert_eq!(k.mem.read_u64(BUFFER + 4), Ok(inner));
    assert_eq!(k.call(Sysno::epoll_wait, &[inner, BUFFER, 4, 0]), Ok(1));
    // The edge is told; the next expiration is the next edge.
    assert_eq!(k.call(Sysno::epoll_wait, &[inner, BUFFER, 4, 0]), Ok(0));
    let due = k.model.next_deadline().unwrap();
    k.model.advance_clock(due);
    assert_eq!(k.call(Sysno::epoll_wait, &[inner, BUFFER, 4, 0]), Ok(1));
    assert_eq!(epoll_add(&mut k, inner, 0, libc::EPOLLIN), Err(Errno::EPERM));
}

#[test]
fn the_directions_of_a_stream_are_independent_until_somebody_watches() {
    let mut k = kernel();
    let (one, two) = pair(&mut k, libc::SOCK_STREAM);
    let writes = |k: &mut Kernel, fd| -> Vec<Object> {
        let prepared = k.prepare(MAIN, Sysno::write, &[fd, BUFFER, 1]);
        let written = prepared.touches.into_iter().filter(|t| t.access == Access::Write);
        written.map(|t| t.object).collect()
    };
    let (from_one, from_two) = (writes(&mut k, one), writes(&mut k, two));
    assert!(from_one.iter().all(|object| !from_two.contains(object)));
    let epoll = k.call(Sysno::epoll_create1, &[0]).unwrap() as u64;
    for fd in [one, two] {
        epoll_add(&mut k, epoll, fd, libc::EPOLLIN).unwrap();
    }
    // Now the order of the two writes shows in the ready list.
    let (from_one, from_two) = (writes(&mut k, one), writes(&mut k, two));
    assert!(from_one.iter().any(|object| from_two.contains(object)));
}

#[test]
fn a_small_write_fits_where_poll_shows_no_room() {
    let mut k = kernel();
    let (_, writer) = pipe(&mut k);
    for _ in 0..16 {
        write(&mut k, writer, &[1; 3000]).unwrap();
    }
    let small = k
        .prepare(MAIN, Sysno::write, &[writer, BUFFER, 1000])
        .wait
        .unwrap();
    assert!(matches!(small.on, WaitFor::Room(_, 1000)));
    assert_eq!(k.call(Sysno::write, &[writer, BUFFER, 1000]), Ok(1000));
    k.park(MAIN, Sysno::write, &[writer, BUFFER, 1000]);
    assert_eq!(k.model.wake_reason(MAIN), None);
}
