//! Two accesses to the same memory: what it means that nothing orders them, or that only an accident does.

use super::history::{Earlier, MOST_WORDS, Now, WORD};
use super::race::{Race, Side, access};
use super::{Findings, Known};
use hooks::{Place, Watched};
use session::{Session, Watching};
use std::ops::Range;
use syscall_model::Tid;

/// The bytes of a word that are in a span, one bit for each.
pub(super) fn bytes_of(span: &Range<u64>, word: u64) -> u8 {
    (0..WORD)
        .filter(|byte| span.contains(&(word + byte)))
        .fold(0, |mask, byte| mask | 1 << byte)
}

/// The memory of another thread's stack: from now on its owner's accesses to it count.
pub(super) fn lend(span: &Range<u64>, known: &mut Known, found: &mut Findings) {
    let words = (span.start & !(WORD - 1)..span.end).step_by(WORD as usize);
    for word in words.take(MOST_WORDS as usize) {
        found.has_learned |= known.lent.insert(word);
    }
}

/// Two accesses that conflict and that nothing orders.
pub(super) fn unordered(
    session: &Session,
    word: u64,
    other: &mut Earlier,
    now: &mut Now,
    known: &mut Known,
    found: &mut Findings,
) {
    let span = common_span(word, other, now);
    for (side, is_atomic) in [(other.side, &mut other.is_atomic), (now.side, &mut now.is_atomic)] {
        if !*is_atomic && known.finds_atomic(session, side.place, &span) {
            *is_atomic = true;
            found.has_learned = true;
        }
    }
    if known.is_in_lock(session, other.side.place) || known.is_in_lock(session, now.side.place) {
        return;
    }
    let are_atomic = other.is_atomic && now.is_atomic;
    let mut sites = Watched::default();
    for (side, own_stack) in [(other.side, other.own_stack), (now.side, now.own_stack)] {
        add_site(&mut sites, side.place, own_stack);
    }
    for (side, is_atomic) in [(other.side, other.is_atomic), (now.side, now.is_atomic)] {
        // A sequentially consistent store is an instruction of its own kind.
        if let (true, true, Place::Instruction(_)) = (is_atomic, side.writes, side.place) {
            let weak = known.weak.entry(side.place);
            weak.or_insert_with(|| session.explain().place(side.place.lookup()));
        }
    }
    if are_atomic {
        found.atomic_sites.merge(sites);
        return;
    }
    found.sites.merge(sites);
    known.stacks.see(session, now.tid, now.side.place);
    let mut sides = [other.side, now.side];
    sides.sort();
    if found.named.insert((sides, false)) {
        let race = Race {
            object: name_of(session, now.tid, span.start),
            accesses: [access(session, &sides[0]), access(session, &sides[1])],
            is_use_after_free: false,
            may_be_atomic: sides
                .iter()
                .any(|side| !session.explain().is_informed_at(side.place.lookup())),
        };
        found.races.push((race, sides));
    }
}

/// Two accesses that conflict, in an order that neither a lock nor waiting makes certain. Atomic operations decide by their values what is done next, so they may
/// come in another order elsewhere. So may plain accesses, if nothing but atomic operations orders them: then these are a synchronisation of the
/// program's own, and if it is wrong, only schedules in which threads stand at these accesses show it.
pub(super) fn ordered_by_accident(
    session: &Session,
    word: u64,
    other: &mut Earlier,
    now: &mut Now,
    are_kept_apart: bool,
    known: &mut Known,
    found: &mut Findings,
) {
    // That the last owner of a counted block frees it is no access to its count.
    if other.side.frees || now.side.frees {
        return;
    }
    let span = common_span(word, other, now);
    for (side, is_atomic) in [(other.side, &mut other.is_atomic), (now.side, &mut now.is_atomic)] {
        *is_atomic |= known.finds_atomic(session, side.place, &span);
    }
    let are_atomic = other.is_atomic && now.is_atomic;
    if !are_atomic && are_kept_apart {
        return;
    }
    let is_in_lock = known.is_in_lock(session, other.side.place) || known.is_in_lock(session, now.side.place);
    if is_in_lock {
        return;
    }
    let sites = match are_atomic {
        true => &mut found.atomic_sites,
        false => &mut found.entrusted,
    };
    for (side, own_stack) in [(other.side, other.own_stack), (now.side, now.own_stack)] {
        add_site(sites, side.place, own_stack);
    }
}

/// The bytes of a word that both accesses touch.
fn common_span(word: u64, other: &Earlier, now: &Now) -> Range<u64> {
    let shared = other.bytes & bytes_of(now.span, word);
    let start = word + u64::from(shared.trailing_zeros());
    start..word + WORD - u64::from(shared.leading_zeros())
}

/// A thread touches memory that was freed.
pub(super) fn note_freed(
    session: &Session,
    tid: Tid,
    watching: &Watching,
    known: &mut Known,
    found: &mut Findings,
) {
    for (span, writes) in &watching.spans {
        let is_in = |freed: &&session::Freed| span.start < freed.range.end && freed.range.start < span.end;
        let Some(freed) = session.sharing().freed(tid).iter().find(is_in) else {
            continue;
        };
        let site = session.sharing().freed_site(freed);
        let sides = [
            Side {
                place: Place::Call(site),
                writes: true,
                frees: true,
            },
            Side {
                place: watching.place,
                writes: *writes,
                frees: watching.frees,
            },
        ];
        for side in &sides {
            add_site(&mut found.atomic_sites, side.place, watching.own_stack);
        }
        if found.named.insert((sides, true)) {
            let mut accesses = [access(session, &sides[0]), access(session, &sides[1])];
            accesses[0].stack = session.sharing().freed_stack(freed);
            let race = Race {
                object: format!(
                    "{} freed bytes{}",
                    freed.range.end - freed.range.start,
                    match span.start.saturating_sub(freed.range.start) {
                        0 => String::new(),
                        offset => format!(" at +{offset}"),
                    }
                ),
                accesses,
                is_use_after_free: true,
                may_be_atomic: false,
            };
            known.uses.push((race, sides));
        }
    }
}

pub(super) fn add_site(sites: &mut Watched, place: Place, own_stack: bool) {
    match place {
        Place::Instruction(site) => {
            sites.instructions.insert(site);
            if own_stack {
                sites.own_stack.insert(site);
            }
        }
        Place::Call(site) => drop(sites.calls.insert(site)),
        // These are parking points already; a system call, if others can see it.
        Place::Atomic(_) | Place::Kernel(_) => {}
    }
}

/// What an address is called.
fn name_of(session: &Session, tid: Tid, address: u64) -> String {
    session.explain().objects().name(address).unwrap_or_else(|| {
        match session.sharing().stack_owner(tid, address) {
            Some(owner) => format!("a variable on the stack of thread {owner}"),
            None => format!("{address:#x}"),
        }
    })
}
