//! The text of made-up files in `/proc` and `/sys`: plausible, and the same in every run.

use crate::fd::Kind;
use crate::fs::tree::View;
use crate::processes::{Pid, Zombie};
use crate::thread::{Pending, Tid};
use std::fmt::Write as _;
use syscalls::Errno;

/// Kilobytes of memory that the modelled machine has; `sysinfo` says the same.
const MEMORY_KB: u64 = 8 * 1024 * 1024;
const FREE_KB: u64 = 4 * 1024 * 1024;

/// `/proc/NAME` about the machine.
pub(super) fn machine(view: &View, name: &[u8]) -> Vec<u8> {
    let cpus = view.fs().cpus.max(1);
    let uptime = view.model.clock.now() / 1_000_000_000;
    let mut out = String::new();
    match name {
        b"cpuinfo" => {
            for cpu in 0..cpus {
                let _ = write!(
                    out,
                    "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\
                     model name\t: Virtual CPU\nstepping\t: 4\ncpu MHz\t\t: 2000.000\ncache size\t: 1024 KB\n\
                     physical id\t: 0\nsiblings\t: {cpus}\ncore id\t\t: {cpu}\ncpu cores\t: {cpus}\n\
                     flags\t\t: fpu tsc msr cx8 cmov mmx fxsr sse sse2 syscall nx lm pni ssse3 cx16 sse4_1 sse4_2 popcnt\n\
                     bogomips\t: 4000.00\nclflush size\t: 64\ncache_alignment\t: 64\n\
                     address sizes\t: 46 bits physical, 48 bits virtual\n\n"
                );
            }
        }
        b"meminfo" => {
            let _ = write!(
                out,
                "MemTotal:       {MEMORY_KB} kB\nMemFree:        {FREE_KB} kB\nMemAvailable:   {FREE_KB} kB\n\
                 Buffers:               0 kB\nCached:                0 kB\nSwapCached:            0 kB\n\
                 SwapTotal:             0 kB\nSwapFree:              0 kB\nHugePages_Total:       0\n\
                 HugePages_Free:        0\nHugepagesize:       2048 kB\n"
            );
        }
        b"stat" => {
            let idle = uptime * 100;
            let _ = writeln!(out, "cpu  0 0 0 {} 0 0 0 0 0 0", idle * u64::from(cpus));
            for cpu in 0..cpus {
                let _ = writeln!(out, "cpu{cpu} 0 0 0 {idle} 0 0 0 0 0 0");
            }
            let boot = view.model.clock.realtime() / 1_000_000_000 - uptime;
            let _ = write!(
                out,
                "ctxt 0\nbtime {boot}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
            );
        }
        b"uptime" => {
            let _ = writeln!(out, "{uptime}.00 {}.00", uptime * u64::from(cpus));
        }
        _ => {
            let _ = writeln!(out, "0.00 0.00 0.00 1/1 {}", view.model.process.pid);
        }
    }
    out.into_bytes()
}

/// `/sys/devices/system/cpu/online` and its kin.
pub(super) fn cpu_list(view: &View) -> Vec<u8> {
    match view.fs().cpus.max(1) {
        1 => b"0\n".to_vec(),
        n => format!("0-{}\n", n - 1).into_bytes(),
    }
}

/// `/proc/self/fdinfo/FD`.
pub(super) fn descriptor(view: &View, fd: i32) -> Result<Vec<u8>, Errno> {
    let (_, description) = view.model.files.lookup_any(fd)?;
    let offset = match &description.kind {
        Kind::File(file) => file.offset,
        _ => 0,
    };
    let flags = description.flags;
    let mut out = format!("pos:\t{offset}\nflags:\t0{flags:o}\nmnt_id:\t1\nino:\t1\n");
    if let Kind::PidFd(pid) = description.kind {
        let shown = match view.model.is_known(pid) {
            true => pid as i32,
            false => -1,
        };
        let _ = write!(out, "Pid:\t{shown}\nNSpid:\t{shown}\n");
    }
    Ok(out.into_bytes())
}

/// `/proc/PID/NAME` for the process or one thread.
pub(super) fn process(view: &View, tid: Tid, name: &[u8]) -> Vec<u8> {
    let pid = view.model.process.pid;
    let Some(thread) = view
        .model
        .threads
        .get(&tid)
        .or(view.model.threads.values().next())
    else {
        return Vec::new();
    };
    let comm = name_of(&thread.name);
    let own = &view.model.process;
    let (parent, group, session) = (own.parent, own.group, own.session);
    let (state, state_word) = match thread.pending {
        _ if own.news.stopped.is_some() => ("T", "stopped"),
        Pending::Running => ("R", "running"),
        _ => ("S", "sleeping"),
    };
    let threads = view.model.threads.len();
    let (uid, gid) = view.user();
    match name {
        b"comm" => format!("{comm}\n"),
        b"cgroup" => "0::/\n".to_owned(),
        b"oom_score_adj" => "0\n".to_owned(),
        b"statm" => "2048 1024 512 64 0 1024 0\n".to_owned(),
        b"mounts" => "rootfs / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\n".to_owned(),
        b"mountinfo" => "1 0 8:1 / / rw,relatime - ext4 /dev/root rw\n\
                         2 1 0:5 / /proc rw - proc proc rw\n3 1 0:6 / /sys rw - sysfs sysfs rw\n"
            .to_owned(),
        b"limits" => limits(),
        b"stat" => {
            let zeros = "0 ".repeat(7);
            format!(
                "{tid} ({comm}) {state} {parent} {group} {session} 0 -1 4194304 {zeros}0 0 0 20 0 {threads} 0 100000 8388608 1024 \
                 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
            )
        }
        _ => format!(
            "Name:\t{comm}\nUmask:\t{:04o}\nState:\t{state} ({state_word})\nTgid:\t{pid}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{parent}\n\
             TracerPid:\t0\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\nFDSize:\t64\n\
             VmPeak:\t    8192 kB\nVmSize:\t    8192 kB\nVmHWM:\t    4096 kB\nVmRSS:\t    4096 kB\n\
             Threads:\t{threads}\nSigBlk:\t{:016x}\nvoluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n",
            view.fs().place.umask,
            thread.signals.mask,
        ),
    }
    .into_bytes()
}

fn name_of(name: &[u8; 16]) -> String {
    let end = name.iter().position(|&b| b == 0).unwrap_or(15);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// `/proc/PID/NAME` of a process that has ended.
pub(super) fn zombie(view: &View, pid: Pid, name: &[u8]) -> Vec<u8> {
    let Some(zombie) = view.model.zombies.get(&pid) else {
        return Vec::new();
    };
    let comm = name_of(&zombie.name);
    let Zombie {
        parent,
        group,
        session,
        user,
        ..
    } = zombie;
    match name {
        b"comm" => format!("{comm}\n"),
        b"stat" => {
            let zeros = "0 ".repeat(7);
            format!(
                "{pid} ({comm}) Z {parent} {group} {session} 0 -1 4194304 {zeros}0 0 0 20 0 1 0 100000 0 0 \
                 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 {}\n",
                zombie.ended.status()
            )
        }
        b"status" => format!(
            "Name:\t{comm}\nState:\tZ (zombie)\nTgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\nPPid:\t{parent}\nTracerPid:\t0\n\
             Uid:\t{user}\t{user}\t{user}\t{user}\nThreads:\t1\n"
        ),
        _ => String::new(),
    }
    .into_bytes()
}

fn limits() -> String {
    let mut out = format!(
        "{:<25} {:<20} {:<20} {:<10}\n",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    );
    for (name, soft, hard, units) in [
        ("Max cpu time", "unlimited", "unlimited", "seconds"),
        ("Max file size", "unlimited", "unlimited", "bytes"),
        ("Max stack size", "8388608", "unlimited", "bytes"),
        ("Max core file size", "0", "unlimited", "bytes"),
        ("Max open files", "1024", "1024", "files"),
        ("Max address space", "unlimited", "unlimited", "bytes"),
    ] {
        let _ = writeln!(out, "{name:<25} {soft:<20} {hard:<20} {units:<10}");
    }
    out
}
