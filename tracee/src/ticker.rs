//! A periodic signal to the supervising thread, so that a guest that never stops is noticed.
//!
//! A timer interrupts `wait4` (see [`crate::Outcome::Tick`]); stops themselves cost nothing extra. The signal is
//! `SIGRTMIN+7`, directed at the one thread, with a handler that does nothing and is installed without `SA_RESTART`.
//! A tick that arrives while the thread is not waiting is lost, which is harmless: the next one comes.

use nix::errno::Errno;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

/// Which real-time signal; the first few are popular elsewhere.
const SIGNAL_OFFSET: i32 = 7;

/// Ticks as long as it lives. Bound to the thread that started it.
#[derive(Debug)]
pub struct Ticker {
    timer: libc::timer_t,
    bound_to_thread: PhantomData<*const ()>,
}

impl Ticker {
    /// Interrupts this thread's waits every `period`.
    pub fn start(period: Duration) -> Result<Self, Errno> {
        static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
        (*INSTALLED.get_or_init(install_handler))?;
        unblock()?;
        let ticker = Ticker {
            timer: create_timer()?,
            bound_to_thread: PhantomData,
        };
        ticker.arm(period)?;
        Ok(ticker)
    }

    fn arm(&self, period: Duration) -> Result<(), Errno> {
        // A zero period would disarm the timer.
        let period = period.max(Duration::from_micros(1));
        let interval = libc::timespec {
            tv_sec: libc::time_t::try_from(period.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(period.subsec_nanos()),
        };
        let spec = libc::itimerspec {
            it_interval: interval,
            it_value: interval,
        };
        // SAFETY: the timer is ours and alive, the specification valid, no old value is asked for.
        Errno::result(unsafe { libc::timer_settime(self.timer, 0, &spec, ptr::null_mut()) }).map(drop)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // SAFETY: created by `create_timer`, deleted here only.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The processor time that this thread has used, up to this moment. (What `getrusage` tells is brought up to date only when the thread is switched or a tick
/// comes: of two moments in between it makes one.)
pub fn thread_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel fills the structure, which is valid with all zeros, too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn signal() -> i32 {
    libc::SIGRTMIN() + SIGNAL_OFFSET
}

extern "C" fn do_nothing(_signal: i32) {}

fn install_handler() -> Result<(), Errno> {
    // SAFETY: an all-zero action is valid (no flags, so no SA_RESTART); the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = do_nothing as *const () as usize;
        Errno::result(libc::sigaction(signal(), &action, ptr::null_mut())).map(drop)
    }
}

fn unblock() -> Result<(), Errno> {
    // SAFETY: the set is initialised by `sigemptyset` before use.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal());
        match libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut()) {
            0 => Ok(()),
            errno => Err(Errno::from_raw(errno)),
        }
    }
}

fn create_timer() -> Result<libc::timer_t, Errno> {
    // SAFETY: an all-zero event is valid before its fields are set; both pointers refer to live locals.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = ptr::null_mut();
        Errno::result(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer))?;
        Ok(timer)
    }
}
