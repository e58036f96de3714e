//! A model, some memory and no files: enough to test handlers that open nothing.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fs::Host;
use crate::memory::FlatMemory;
use crate::model::{Config, Cx, Model};
use crate::net::NoNetwork;
use crate::thread::{Pending, Tid};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

/// Where the test memory begins.
pub const BASE: u64 = 0x1_0000;

struct NoFiles;

impl Host for NoFiles {}

pub struct Kernel {
    pub model: Model,
    pub mem: FlatMemory,
    pub net: NoNetwork,
}

impl Kernel {
    pub const MAIN: Tid = 1000;

    pub fn new() -> Self {
        Self {
            model: Model::new(&Config::default()),
            mem: FlatMemory::new(BASE, 0x4000),
            net: NoNetwork,
        }
    }

    pub fn context(&mut self, tid: Tid, wake: Wake) -> Cx<'_> {
        Cx {
            model: &mut self.model,
            mem: &mut self.mem,
            host: &NoFiles,
            net: &mut self.net,
            tid,
            wake,
        }
    }

    pub fn run(&mut self, tid: Tid, wake: Wake, sysno: Sysno, args: &[u64]) -> Outcome {
        self.context(tid, wake).execute(&call(sysno, args))
    }

    pub fn prepare(&mut self, tid: Tid, sysno: Sysno, args: &[u64]) -> Prepared {
        let mut cx = self.context(tid, Wake::Ready);
        let prepared = cx.prepare(&call(sysno, args));
        cx.begin(&prepared.begins);
        prepared
    }

    /// The main thread makes a call that must not wait.
    pub fn call(&mut self, sysno: Sysno, args: &[u64]) -> Result<i64, Errno> {
        self.call_as(Self::MAIN, sysno, args)
    }

    pub fn call_as(&mut self, tid: Tid, sysno: Sysno, args: &[u64]) -> Result<i64, Errno> {
        match self.run(tid, Wake::Ready, sysno, args)? {
            Effect::Done(value) | Effect::DoneCheckSignals(value) => Ok(value),
            other => panic!("{} gave {other:?}", sysno.name()),
        }
    }

    /// One more thread, running.
    pub fn thread(&mut self) -> Tid {
        let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        match self.run(Self::MAIN, Wake::Ready, Sysno::clone, &[flags as u64]) {
            Ok(Effect::Spawn(spawn)) => {
                self.model.thread_mut(spawn.child).pending = Pending::Running;
                spawn.child
            }
            other => panic!("clone gave {other:?}"),
        }
    }

    /// Parks a thread in a call that waits, as the supervisor does.
    pub fn park(&mut self, tid: Tid, sysno: Sysno, args: &[u64]) {
        let prepared = self.prepare(tid, sysno, args);
        let thread = self.model.thread_mut(tid);
        thread.pending = Pending::Call(call(sysno, args));
        thread.wait = prepared.wait;
    }
}

fn call(sysno: Sysno, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call::new(sysno, all)
}
