//! Ctrl-C and SIGTERM during a sweep: the first ends it in good order (checks are asked to stop, tear-downs run), the second kills the checks.

use failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the requests to stop. The signals have their usual meaning again when it is dropped.
pub struct Stop {
    requests: Arc<AtomicU32>,
    handle: Handle,
}

impl Stop {
    /// # Errors
    /// The signals cannot be caught.
    pub fn on_signals() -> Result<Stop, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM])
            .map_err(|e| Failure::unsupported(format!("cannot catch signals: {e}")))?;
        let (requests, handle) = (Arc::new(AtomicU32::new(0)), signals.handle());
        let counter = Arc::clone(&requests);
        let count = move || {
            for _ in signals.forever() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        };
        std::thread::Builder::new()
            .spawn(count)
            .map_err(|error| Failure::no_thread(&error))?;
        Ok(Stop { requests, handle })
    }

    pub fn requested(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 0
    }

    pub fn insisted(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 1
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.handle.close();
    }
}
