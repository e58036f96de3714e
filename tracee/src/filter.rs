//! The seccomp filter that turns system calls into stops.
//!
//! It fails closed: the caller names the calls that need no look, everything else stops, wherever it comes from. A call
//! of the supervisor's own ([`crate::Stopped::inject`]) needs no rule: it takes the place of a call at which the task is stopped
//! already, and the kernel does not stop twice. So nothing that the program can do, jump to or overwrite makes a call pass.
//!
//! Calls of a foreign ABI (`int 0x80`) have numbers that mean something else. They are answered with
//! `RET_TRAP`, which the tracer sees as its own kind of stop ([`crate::Stop::ForeignCall`]) without having to ask
//! for the ABI at every ordinary stop. x32 calls need no such care: bit 30 of their number sets them apart,
//! and they are always traced.

use std::collections::BTreeSet;

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Set in the number of an x32 call.
pub const X32_BIT: u32 = 0x4000_0000;

const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A compiled seccomp program.
#[derive(Clone)]
pub struct Filter {
    program: Vec<libc::sock_filter>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter")
            .field("instructions", &self.program.len())
            .finish()
    }
}

/// Numbers from `start` up to the next boundary share a verdict.
struct Interval {
    start: u32,
    verdict: u32,
}

impl Filter {
    /// Lets the `allowed` calls pass; stops at all others.
    pub fn new(allowed: impl IntoIterator<Item = u32>) -> Self {
        let mut program = vec![
            op(LOAD, OFFSET_ARCH),
            branch(JUMP_IF_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
            op(RETURN, libc::SECCOMP_RET_TRAP),
            op(LOAD, OFFSET_NR),
        ];
        program.extend(search(&intervals(allowed)));
        Filter { program }
    }

    /// Number of BPF instructions; the kernel takes up to 4096.
    pub fn len(&self) -> usize {
        self.program.len()
    }

    /// A filter is never empty.
    pub fn is_empty(&self) -> bool {
        self.program.is_empty()
    }

    pub(crate) fn program(&self) -> &[libc::sock_filter] {
        &self.program
    }
}

/// The number line cut where the verdict changes. x32 numbers are traced even if they are listed.
fn intervals(allowed: impl IntoIterator<Item = u32>) -> Vec<Interval> {
    let allowed: BTreeSet<u32> = allowed.into_iter().filter(|nr| *nr < X32_BIT).collect();
    let mut cuts = vec![Interval {
        start: 0,
        verdict: libc::SECCOMP_RET_TRACE,
    }];
    for nr in allowed {
        match cuts.last() {
            // Adjoins the previous allowed run: drop the cut that ended it.
            Some(last) if last.start == nr => {
                cuts.pop();
            }
            _ => {}
        }
        match cuts.last() {
            Some(last) if last.verdict == libc::SECCOMP_RET_ALLOW => {}
            _ => cuts.push(Interval {
                start: nr,
                verdict: libc::SECCOMP_RET_ALLOW,
            }),
        }
        cuts.push(Interval {
            start: nr + 1,
            verdict: libc::SECCOMP_RET_TRACE,
        });
    }
    cuts
}

/// A binary search: the filter runs at every call, so depth counts more than length.
fn search(cuts: &[Interval]) -> Vec<libc::sock_filter> {
    if let [only] = cuts {
        return vec![op(RETURN, only.verdict)];
    }
    let (below, above) = cuts.split_at(cuts.len() / 2);
    let (low, high) = (search(below), search(above));
    let mut code = match u8::try_from(low.len()) {
        Ok(skip) => vec![branch(JUMP_IF_AT_LEAST, above[0].start, skip, 0)],
        // Conditional jumps reach 255 instructions, unconditional ones any distance.
        Err(_) => vec![
            branch(JUMP_IF_AT_LEAST, above[0].start, 0, 1),
            op(JUMP, low.len() as u32),
        ],
    };
    code.extend(low);
    code.extend(high);
    code
}

fn op(code: u16, k: u32) -> libc::sock_filter {
    branch(code, k, 0, 0)
}

fn branch(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the instructions that the filter uses, as the kernel would.
    fn run(filter: &Filter, nr: u32, arch: u32) -> u32 {
        let data = [nr, arch];
        let (mut accumulator, mut pc) = (0, 0);
        loop {
            let ins = &filter.program[pc];
            pc += 1;
            match ins.code {
                LOAD => accumulator = data[ins.k as usize / 4],
                JUMP => pc += ins.k as usize,
                RETURN => return ins.k,
                JUMP_IF_EQUAL => pc += usize::from(if accumulator == ins.k { ins.jt } else { ins.jf }),
                JUMP_IF_AT_LEAST => pc += usize::from(if accumulator >= ins.k { ins.jt } else { ins.jf }),
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    fn verdict(filter: &Filter, nr: u32) -> u32 {
        run(filter, nr, AUDIT_ARCH_X86_64)
    }

    fn check(allowed: &[u32]) {
        let filter = Filter::new(allowed.iter().copied());
        assert!(filter.len() < 4096);
        for nr in (0..1200).chain([X32_BIT - 1, X32_BIT, X32_BIT + 1, u32::MAX - 1, u32::MAX]) {
            let expected = if allowed.contains(&nr) && nr < X32_BIT {
                libc::SECCOMP_RET_ALLOW
            } else {
                libc::SECCOMP_RET_TRACE
            };
            assert_eq!(
                verdict(&filter, nr),
                expected,
                "call {nr} with {} allowed",
                allowed.len()
            );
        }
    }

    #[test]
    fn allows_exactly_the_listed_calls() {
        check(&[]);
        check(&[0]);
        check(&[0, 1, 2, 3, 9, 10, 11, 12, 39, 231, 334]);
        check(&(0..450).collect::<Vec<_>>());
        check(&(0..450).rev().filter(|nr| nr % 7 < 3).collect::<Vec<_>>());
    }

    #[test]
    fn long_jumps_are_used_where_short_ones_do_not_reach() {
        check(&(0..1100).filter(|nr| nr % 2 == 0).collect::<Vec<_>>());
    }

    #[test]
    fn x32_calls_are_traced_even_if_listed() {
        check(&[X32_BIT, X32_BIT + 1, 5]);
    }

    /// An address would be something that the program can jump to.
    #[test]
    fn no_verdict_depends_on_where_a_call_comes_from() {
        let filter = Filter::new((0..450).filter(|nr| nr % 3 == 0));
        let looks_at = |ins: &&libc::sock_filter| ins.code == LOAD;
        assert!(
            filter
                .program
                .iter()
                .filter(looks_at)
                .all(|ins| ins.k == OFFSET_NR || ins.k == OFFSET_ARCH)
        );
    }

    #[test]
    fn foreign_calls_are_trapped() {
        let filter = Filter::new([1]);
        assert_eq!(run(&filter, 1, 0x4000_0003), libc::SECCOMP_RET_TRAP);
    }

    #[test]
    fn the_search_is_shallow() {
        let filter = Filter::new((0..450).filter(|nr| nr % 2 == 0));
        let steps = |nr: u32| {
            let (mut pc, mut count, mut accumulator) = (0usize, 0, 0);
            loop {
                let ins = &filter.program[pc];
                (pc, count) = (pc + 1, count + 1);
                match ins.code {
                    LOAD => accumulator = [nr, AUDIT_ARCH_X86_64][ins.k as usize / 4],
                    JUMP => pc += ins.k as usize,
                    RETURN => return count,
                    code => {
                        let taken = if code == JUMP_IF_EQUAL {
                            accumulator == ins.k
                        } else {
                            accumulator >= ins.k
                        };
                        pc += usize::from(if taken { ins.jt } else { ins.jf });
                    }
                }
            }
        };
        assert!((0..500).map(steps).max() <= Some(20));
    }
}
