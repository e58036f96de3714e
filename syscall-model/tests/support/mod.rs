//! A guest for tests without a process: flat memory, one thread, calls by name.
#![allow(dead_code, reason = "each test binary uses its own part")]

use syscall_model::fs::Host;
use syscall_model::memory::FlatMemory;
use syscall_model::net::NoNetwork;
use syscall_model::{Call, Config, Cx, Effect, Errno, GuestMemory, GuestMemoryExt, Model, Sysno, Wake};

pub const BASE: u64 = 0x10000;
/// Where the first, second and third path argument are put.
pub const PATHS: [u64; 3] = [BASE, BASE + 0x2000, BASE + 0x4000];
/// Where data goes.
pub const DATA: u64 = BASE + 0x8000;
const SIZE: usize = 1 << 20;

pub struct Guest<H> {
    pub model: Model,
    pub memory: FlatMemory,
    pub host: H,
    pub net: NoNetwork,
    pub tid: u32,
}

pub fn config(cwd: &str) -> Config {
    Config {
        pid: 1000,
        epoch_seconds: 1_893_456_000,
        random_seed: 7,
        cpus: 2,
        cwd: cwd.into(),
        program: b"/bin/guest".to_vec(),
        stdin: b"from stdin\n".to_vec(),
        umask: 0o022,
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        arrivals: syscall_model::net::Arrivals::Ordered,
        servers_remember: false,
    }
}

impl<H: Host> Guest<H> {
    pub fn new(host: H, cwd: &str) -> Self {
        Self {
            model: Model::new(&config(cwd)),
            memory: FlatMemory::new(BASE, SIZE),
            host,
            net: NoNetwork,
            tid: 1000,
        }
    }

    fn cx(&mut self) -> Cx<'_> {
        Cx {
            model: &mut self.model,
            mem: &mut self.memory,
            host: &self.host,
            net: &mut self.net,
            tid: self.tid,
            wake: Wake::Ready,
        }
    }

    /// Parks before a call and runs it at once. Calls with a timeout or a signal mask fix both when they park.
    pub fn effect_after_prepare(&mut self, sysno: Sysno, args: [u64; 6]) -> Result<Effect, Errno> {
        let call = Call::new(sysno, args);
        let mut cx = self.cx();
        let prepared = cx.prepare(&call);
        cx.begin(&prepared.begins);
        cx.execute(&call)
    }

    pub fn effect(&mut self, sysno: Sysno, args: [u64; 6]) -> Result<Effect, Errno> {
        let call = Call::new(sysno, args);
        let mut cx = self.cx();
        // Preparing must never fail, whatever the arguments, nor may it begin what only the other way of making a call does.
        let prepared = cx.prepare(&call);
        let before = cx.model.clone();
        cx.begin(&prepared.begins);
        assert!(*cx.model == before, "{} began something", sysno.name());
        cx.execute(&call)
    }

    /// Runs a call that must finish at once.
    pub fn call(&mut self, sysno: Sysno, args: &[u64]) -> Result<i64, Errno> {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        match self.effect(sysno, all)? {
            Effect::Done(value) => Ok(value),
            other => panic!("{} gave {other:?}", sysno.name()),
        }
    }

    /// Puts a string where path argument `i` is.
    pub fn path(&mut self, i: usize, path: &str) -> u64 {
        let mut bytes = path.as_bytes().to_vec();
        bytes.push(0);
        self.memory.write(PATHS[i], &bytes).unwrap();
        PATHS[i]
    }

    pub fn open(&mut self, path: &str, flags: i32, mode: u32) -> Result<i32, Errno> {
        let path = self.path(0, path);
        let fd = self.call(Sysno::open, &[path, flags as u64, u64::from(mode)])?;
        Ok(fd as i32)
    }

    pub fn read(&mut self, fd: i32, max: usize) -> Result<Vec<u8>, Errno> {
        let n = self.call(Sysno::read, &[fd as u64, DATA, max as u64])?;
        Ok(self.memory.read_vec(DATA, n as usize).unwrap())
    }

    pub fn write(&mut self, fd: i32, data: &[u8]) -> Result<i64, Errno> {
        self.memory.write(DATA, data).unwrap();
        self.call(Sysno::write, &[fd as u64, DATA, data.len() as u64])
    }

    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        self.call(Sysno::close, &[fd as u64]).map(|_| ())
    }

    /// All bytes of a file.
    pub fn contents(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        let fd = self.open(path, libc::O_RDONLY, 0)?;
        let mut all = Vec::new();
        loop {
            let piece = self.read(fd, 60_000)?;
            if piece.is_empty() {
                break;
            }
            all.extend(piece);
        }
        self.close(fd)?;
        Ok(all)
    }

    /// Mode and size.
    pub fn stat(&mut self, path: &str) -> Result<(u32, u64), Errno> {
        let path = self.path(0, path);
        self.call(Sysno::stat, &[path, DATA])?;
        Ok((
            self.memory.read_u32(DATA + 24).unwrap(),
            self.memory.read_u64(DATA + 48).unwrap(),
        ))
    }
}
