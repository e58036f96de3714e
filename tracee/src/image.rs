//! Preparation of a new program image, right after exec: everything that would differ from run to run goes.
//!
//! - The vDSO is taken out of the auxiliary vector, so that clock calls are system calls, and out of the address space
//!   together with the kernel's time pages, so that nothing changes in memory behind the supervisor's back.
//! - The random bytes that seed stack guards and pointer mangling are set.
//! - `rdtsc` is made to fault.

use crate::auxv::{self, InitialStack};
use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::stopped::Stopped;
use procfs::process::{MMapPath, Process};

/// What to prepare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageOptions {
    /// The bytes behind `AT_RANDOM`.
    pub random: [u8; 16],
    /// Make `rdtsc` and `rdtscp` fault with `SIGSEGV`.
    pub hide_tsc: bool,
}

/// A prepared image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The vectors on the initial stack, as they were before the changes.
    pub stack: InitialStack,
    /// First instruction: of the dynamic loader, if there is one.
    pub start: u64,
    /// Entry point of the program itself (`AT_ENTRY`).
    pub entry: Option<u64>,
    /// Load address of the dynamic loader (`AT_BASE`).
    pub loader: Option<u64>,
    /// Program headers of the program in memory (`AT_PHDR`).
    pub program_headers: Option<u64>,
}

impl Stopped {
    /// Prepares the new image at a [`Stop::Exec`] stop, which the task does not leave.
    pub fn prepare_image(&mut self, options: &ImageOptions) -> Result<Image> {
        let pid = self.pid();
        if *self.stop() != Stop::Exec {
            return Err(Error::UnexpectedStop {
                pid,
                during: "preparation of an image",
                stop: *self.stop(),
            });
        }
        self.leave_call()?;
        let regs = *self.regs()?;
        let stack = InitialStack::read(self.memory(), pid, regs.rsp)?;
        if let Some(vdso) = stack.entry(auxv::AT_SYSINFO_EHDR) {
            self.memory().write(vdso.addr, &auxv::AT_IGNORE.to_le_bytes())?;
        }
        if let Some(random) = stack.get(auxv::AT_RANDOM) {
            self.memory().write(random, &options.random)?;
        }
        self.unmap_kernel_pages()?;
        if options.hide_tsc {
            let args = [libc::PR_SET_TSC as u64, libc::PR_TSC_SIGSEGV as u64, 0, 0, 0, 0];
            self.inject_checked("prctl(PR_SET_TSC)", libc::SYS_prctl, args)?;
        }
        Ok(Image {
            start: regs.rip,
            entry: stack.get(auxv::AT_ENTRY),
            loader: stack.get(auxv::AT_BASE).filter(|&base| base != 0),
            program_headers: stack.get(auxv::AT_PHDR),
            stack,
        })
    }

    /// Unmaps the vDSO and the data pages that the kernel keeps for it.
    fn unmap_kernel_pages(&mut self) -> Result<()> {
        let pid = self.pid();
        let failed = |error: procfs::ProcError| Error::Proc {
            pid,
            reason: error.to_string(),
        };
        let maps = Process::new(pid)
            .and_then(|process| process.maps())
            .map_err(failed)?;
        for map in maps {
            let kernels_own = match &map.pathname {
                MMapPath::Vdso | MMapPath::Vvar => true,
                MMapPath::Other(name) => name.starts_with("vvar"),
                _ => false,
            };
            if kernels_own {
                let (start, end) = map.address;
                self.inject_checked(
                    "munmap of the vDSO",
                    libc::SYS_munmap,
                    [start, end - start, 0, 0, 0, 0],
                )?;
            }
        }
        Ok(())
    }
}
