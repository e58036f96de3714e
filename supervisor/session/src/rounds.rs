//! Loops that wait for some rounds and then do something else: spin, and go to sleep if that was in vain.
//!
//! Whoever yields runs again when the others have moved. For a loop without end that is fair; but a loop that counts its rounds ends by itself, and if others
//! moved in each of them, what comes after it would never be seen while they still have something to do. So the rounds of such a loop are one
//! step, as long as they find what the round before found. A round that ends as it began, with the same registers and the same stack, counts nothing, and the thread
//! waits for others there.

use super::Session;
use super::context::HookOp;
use super::spaces::Space;
use failure::Failure;
use hooks::SiteKind;
use syscall_model::{Pending, Tid, table};
use tracee::Regs;

/// Rounds that are one step, at most: more than locks that spin make.
const ROUNDS: u32 = 128;
/// Loads that are passed in all of them.
const LOOKS: u32 = 4 * ROUNDS;
/// Loads of one round that are remembered: they are part of a state, and a loop that looks at more does more than wait.
const REMEMBERED: usize = 2;
/// How much of the stack a loop may count in.
const STACK: usize = 256;
/// How often a thread may leave such a loop before others have moved: it may be part of a larger one.
const IN_A_ROW: u8 = 2;

/// A load and what it found.
pub type Look = (u64, u64, Vec<u8>);

/// Rounds that a thread makes in one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    made: u32,
    passed: u32,
    /// What it found in the round before.
    looks: Vec<Look>,
    at: (Regs, Vec<u8>),
}

impl Session {
    /// A thread performs an operation by which it lets others go first.
    pub(super) fn begins_round(&mut self, tid: Tid, regs: &Regs) -> Result<(), Failure> {
        if self.options.walk.is_some() {
            return Ok(());
        }
        let looks = self
            .threads
            .at(tid)
            .loops
            .looks
            .replace(Vec::new())
            .unwrap_or_default();
        let at = self.spaces.here.round_state(regs)?;
        self.transit.rounds = Some(Rounds {
            looks,
            at,
            ..Rounds::default()
        });
        Ok(())
    }

    /// It performs another operation: a load is part of its round, anything else ends it.
    pub(super) fn looks_or_acts(&mut self, tid: Tid, op: &HookOp) -> Result<(), Failure> {
        let Some(mut looks) = self.threads.at(tid).loops.looks.take() else {
            return Ok(());
        };
        if let Some(look) = self.spaces.here.look(op)?
            && looks.len() < REMEMBERED
        {
            looks.push(look);
            self.threads.at(tid).loops.looks = Some(looks);
        }
        Ok(())
    }

    /// It comes to such an operation again. Is this one more round of the same step?
    pub(super) fn goes_round(&mut self, regs: &Regs) -> Result<bool, Failure> {
        if self.transit.rounds.is_none() {
            return Ok(false);
        }
        let at = self.spaces.here.round_state(regs)?;
        let Some(rounds) = &mut self.transit.rounds else {
            return Ok(false);
        };
        if rounds.at == at || rounds.made >= ROUNDS {
            return Ok(false);
        }
        rounds.made += 1;
        rounds.at = at;
        Ok(true)
    }

    /// It comes to a load. Does that find what it found in the round before?
    pub(super) fn finds_the_same(&mut self, tid: Tid, op: &HookOp) -> Result<bool, Failure> {
        if self.transit.rounds.is_none() {
            return Ok(false);
        }
        let look = self.spaces.here.look(op)?;
        let (Some(rounds), Some(look)) = (&mut self.transit.rounds, look) else {
            return Ok(false);
        };
        rounds.passed += 1;
        let is_same = rounds.passed < LOOKS && rounds.looks.contains(&look);
        // The next round is compared with this one, as if it had stopped here.
        if let Some(looks) = &mut self.threads.at(tid).loops.looks
            && is_same
            && !looks.contains(&look)
        {
            looks.push(look);
        }
        Ok(is_same)
    }

    /// A thread that has yielded: does it do something else now, without waiting for others to move?
    pub(super) fn leaves_loop(&mut self, tid: Tid) -> bool {
        let Some(rounds) = &self.transit.rounds else {
            return false;
        };
        let hook = self.threads.hook(tid);
        let thread = self.model.thread(tid);
        let has_left = match &thread.pending {
            Pending::Call(call) if table::lookup(call.sysno).yields => false,
            Pending::Call(_) if thread.wait.is_some() => true,
            Pending::Hook(_) if hook.is_some_and(HookOp::is_pause) => false,
            Pending::Spin => false,
            _ => rounds.made > 0,
        };
        let context = self.threads.at(tid);
        let may = has_left && context.loops.unfair < IN_A_ROW;
        context.loops.unfair += u8::from(may);
        may
    }
}

impl Space {
    /// What a load finds; `None` for all else.
    fn look(&mut self, op: &HookOp) -> Result<Option<Look>, Failure> {
        let [(span, false)] = &op.spans[..] else {
            return Ok(None);
        };
        if !matches!(op.kind, SiteKind::Memory(_)) {
            return Ok(None);
        }
        let mut bytes = vec![0; (span.end - span.start).min(STACK as u64) as usize];
        let is_there = self.task()?.memory().read(span.start, &mut bytes).is_ok();
        Ok(is_there.then_some((op.site, span.start, bytes)))
    }

    /// What tells one round from another.
    fn round_state(&mut self, regs: &Regs) -> Result<(Regs, Vec<u8>), Failure> {
        let regs = Regs {
            // A system call leaves something in these.
            rax: 0,
            rcx: 0,
            r11: 0,
            orig_rax: 0,
            ..*regs
        };
        let mut stack = vec![0; STACK];
        let read = self.task()?.memory().read_up_to(regs.rsp, &mut stack)?;
        stack.truncate(read);
        Ok((regs, stack))
    }
}
