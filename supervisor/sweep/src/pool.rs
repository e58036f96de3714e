//! Scenarios side by side: as many as there are jobs, in the order of the file, a scenario with several workers counting for as many. One whose
//! lock another holds is passed over until that has ended.

use super::plan::Planned;
use super::record::Observation;
use super::scenario::Stage;
use std::collections::VecDeque;
use std::sync::mpsc;

/// What the pool tells whoever listens, all from one thread.
pub enum Event<'a> {
    Started(&'a Planned),
    /// `None`: interrupted.
    Ended(&'a Planned, Option<Box<Observation>>),
}

/// Runs the scenarios; those not begun when the sweep is to stop are left out.
///
/// # Errors
/// What `listen` says; what runs is then still waited for.
pub fn run<E>(
    stage: &Stage<'_>,
    scenarios: &[&Planned],
    jobs: u32,
    mut listen: impl FnMut(Event<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        let (mut busy, mut failure) = (0, Ok(()));
        let mut running: Vec<&Planned> = Vec::new();
        let mut waiting: VecDeque<&Planned> = scenarios.iter().copied().collect();
        loop {
            let may_start = !stage.stop.requested() && failure.is_ok();
            let fits = |next: &Planned| busy == 0 || busy + weight(next, jobs) <= jobs;
            let next = waiting
                .iter()
                .position(|next| running.iter().all(|other| !excludes(other, next)))
                .filter(|&position| may_start && fits(waiting[position]));
            if let Some(next) = next.and_then(|position| waiting.remove(position)) {
                busy += weight(next, jobs);
                running.push(next);
                if let Err(error) = listen(Event::Started(next)) {
                    failure = Err(error);
                }
                let sender = sender.clone();
                let run = move || {
                    // The receiver lives as long as anything runs.
                    let _ = sender.send((next, stage.run(next)));
                };
                // Without a further thread one at a time must do.
                if std::thread::Builder::new()
                    .spawn_scoped(scope, run.clone())
                    .is_err()
                {
                    run();
                }
                continue;
            }
            if running.is_empty() {
                return failure;
            }
            // The sender that we hold ourselves keeps the channel open.
            let Ok((scenario, seen)) = ended.recv() else {
                return failure;
            };
            running.retain(|other| !std::ptr::eq(*other, scenario));
            busy -= weight(scenario, jobs);
            if let Err(error) = listen(Event::Ended(scenario, seen.map(Box::new))) {
                failure = Err(error);
            }
        }
    })
}

/// Whether two scenarios must not run at the same time.
fn excludes(one: &Planned, other: &Planned) -> bool {
    one.run.locks.iter().any(|lock| other.run.locks.contains(lock))
}

fn weight(scenario: &Planned, jobs: u32) -> u32 {
    scenario.run.workers.clamp(1, jobs)
}
