//! Walks of one program: it is started once, and each walk begins where it has its second thread.
//!
//! What a program does while it is alone is the same in all walks, and for small programs it is most of what they do.

use super::history::History;
use super::met::{self, Met};
use super::scheduler::Scheduler;
use super::{Findings, Known, STEPS, STOPS};
use crate::system::Mark;
use crate::{CheckSystem, CheckpointChoice, Judge};
use explore::{Choice, System};
use failure::Failure;
use hooks::{Place, Watched};
use session::network::Peers;
use session::{Options, Session, Walk};
use std::sync::Arc;
use syscall_model::Tid;
use trace::{Violation, ViolationKind};

/// A program that is walked.
pub struct Walker {
    system: CheckSystem,
    walk: Walk,
    watched: Arc<Watched>,
    peers: Peers,
    /// Where it has its second thread, if it can be brought back there.
    fork: Option<(Mark, Course)>,
}

/// How far a walk has come.
#[derive(Clone, Default)]
struct Course {
    history: History,
    path: Vec<Choice>,
}

impl Walker {
    pub fn new(options: &Options, judge: &Judge, choice: CheckpointChoice, known: &Known) -> Self {
        let walk = Walk {
            lent: Arc::new(known.lent.clone()),
        };
        let mut watched = Watched::default();
        if judge.properties.races {
            watched.atomic.clone_from(&known.watched.atomic);
        }
        let watched = Arc::new(watched);
        let walked = met::as_walk(options, &walk, &watched, &options.peers);
        Self {
            system: CheckSystem::new(walked, judge.clone(), choice),
            walk,
            watched,
            peers: options.peers.clone(),
            fork: None,
        }
    }

    /// Does it watch what is known by now?
    pub fn is_up_to_date(&self, known: &Known, judge: &Judge) -> bool {
        *self.walk.lent == known.lent
            && (!judge.properties.races || self.watched.atomic == known.watched.atomic)
    }

    /// Follows one schedule to its end. Returns whether the program had a second thread.
    pub fn follow(
        &mut self,
        mut scheduler: Scheduler,
        known: &mut Known,
        found: &mut Findings,
    ) -> Result<bool, Failure> {
        let Some(mut course) = self.come_to_second_thread(known, found)? else {
            return Ok(false);
        };
        self.system.session()?.allow_stops(STOPS);
        while course.path.len() < STEPS as usize && found.violations.is_empty() {
            let session = self.system.execution()?;
            let Some(tid) = scheduler.next(session, known) else {
                break;
            };
            tracing::trace!(tid, access = ?session.sharing().watching(tid), "a step of a walk");
            self.step(tid, &mut course, known, found)?;
        }
        Ok(true)
    }

    /// Brings the program to where it has its second thread; `None` if it never does.
    fn come_to_second_thread(
        &mut self,
        known: &mut Known,
        found: &mut Findings,
    ) -> Result<Option<Course>, Failure> {
        if let Some((mark, course)) = self.fork.take()
            && self.system.rewind(&mark)?
        {
            let (_, course) = self.fork.insert((mark, course));
            return Ok(Some(course.clone()));
        }
        self.system.reset()?;
        self.system.session()?.allow_stops(STOPS);
        let mut course = Course::default();
        loop {
            let session = self.system.execution()?;
            if session.model().own_threads().count() > 1 {
                break;
            }
            let Some(&tid) = session.movers().enabled().first() else {
                return Ok(None);
            };
            if course.path.len() >= STEPS as usize || !found.violations.is_empty() {
                return Ok(None);
            }
            self.step(tid, &mut course, known, found)?;
        }
        if let Some(mark) = self.system.mark()? {
            self.fork = Some((mark, course.clone()));
        }
        Ok(Some(course))
    }

    fn step(
        &mut self,
        tid: Tid,
        course: &mut Course,
        known: &mut Known,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let session = self.system.execution()?;
        let races_before = found.races.len();
        course.history.before_step(session, tid, known, found);
        let handle = session.sharing().handle(tid);
        let process = session.model().process_of(tid);
        let choice = Choice::of(tid);
        let step = self.system.step(choice);
        course.path.push(choice);
        let events = self.system.session()?.take_events();
        let session = self.system.execution()?;
        course.history.after_step(session, tid, events, known, found);
        if session.model().find_thread(tid).is_none() {
            // Nobody waits for a process with `pthread_join`.
            let is_seen = session.sharing().sees_joins()
                && process.is_some_and(|pid| session.model().process_at(pid).is_some());
            course.history.ended(tid, handle, is_seen);
        }
        let is_new = found.races.len() > races_before;
        found.first_race = found
            .first_race
            .take()
            .or_else(|| is_new.then(|| (races_before, course.path.clone())));
        let violations = step?.violations.into_iter();
        // Walks see what a search would not park at: the insides of locks that are not the C library's.
        let violations: Vec<Violation> = violations
            .filter(|violation| violation.kind != ViolationKind::Race || !races_in_lock(session, known))
            .collect();
        found.violations.extend(
            violations
                .into_iter()
                .map(|violation| (violation, course.path.clone())),
        );
        Ok(())
    }

    /// A violation that a walk has run into.
    pub fn met(&self, violation: Violation, path: Vec<Choice>, is_by_order: bool) -> Met {
        Met {
            violation,
            path,
            is_by_order,
            walk: self.walk.clone(),
            watched: Arc::clone(&self.watched),
            peers: self.peers.clone(),
        }
    }
}

fn races_in_lock(session: &Session, known: &mut Known) -> bool {
    let races = session.sharing().races();
    let threads = races.iter().flat_map(|race| race.sides).map(|(tid, _)| tid);
    let places = threads
        .filter_map(|tid| session.sharing().watching(tid))
        .map(|access| access.place);
    let places: Vec<Place> = places.collect();
    places.into_iter().any(|place| known.is_in_lock(session, place))
}
