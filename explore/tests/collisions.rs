//! What is assumed of identities: two states with the same one are taken for the same. Where they are not, something is missed, and only a search that
//! remembers no states finds it.

use explore::{Candidate, Choice, Config, Footprint, Menu, Reduction, Report, Search, StepReport, System};
use std::convert::Infallible;

/// Two threads that each append their letter; `BA` is wrong. Every state after the first step has the same identity.
#[derive(Clone, Default)]
struct Colliding {
    text: String,
}

impl System for Colliding {
    type Mark = Colliding;
    type Outcome = String;
    type Violation = ();
    type Error = Infallible;

    fn reset(&mut self) -> Result<(), Infallible> {
        self.text.clear();
        Ok(())
    }

    fn enabled(&mut self) -> Result<Menu, Infallible> {
        let left = (0..2).filter(|&thread| !self.text.contains(letter(thread)));
        Ok(Menu {
            choices: left
                .map(|thread| Candidate::new(Choice::of(thread), Footprint::write(1)))
                .collect(),
            ..Menu::default()
        })
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Infallible> {
        self.text.push(letter(choice.thread));
        let mut report = StepReport::running();
        if self.text.len() == 2 {
            report.end = Some(self.text.clone());
            report.violations = if self.text == "BA" { vec![()] } else { Vec::new() };
        }
        Ok(report)
    }

    fn state_id(&mut self) -> Result<u128, Infallible> {
        Ok(self.text.len() as u128)
    }

    fn describe(&mut self, choice: Choice) -> String {
        format!("thread {}", choice.thread)
    }

    fn mark(&mut self) -> Result<Option<Self>, Infallible> {
        Ok(Some(self.clone()))
    }

    fn rewind(&mut self, mark: &Self) -> Result<bool, Infallible> {
        *self = mark.clone();
        Ok(true)
    }

    fn forget(&mut self, _mark: Self) {}
}

fn letter(thread: u32) -> char {
    if thread == 0 { 'A' } else { 'B' }
}

#[test]
fn states_that_collide_hide_what_comes_after_the_second() {
    let search = |hash| {
        let config = Config {
            hash,
            reduction: Reduction::None,
            ..Config::default()
        };
        Search::new(config).run_one(&mut Colliding::default())
    };
    assert!(
        search(true).violations.is_empty(),
        "the second state was not taken for the first"
    );
    assert_eq!(search(false).violations.len(), 1);
}
