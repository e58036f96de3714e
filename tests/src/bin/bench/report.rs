//! The table of ratios, for people and for programs.

use serde_json::{Value, json};

use crate::sample::Cost;

/// What a ratio should be.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

/// One comparison.
#[derive(Clone, Debug)]
pub struct Row {
    name: String,
    ours: Cost,
    reference: Cost,
    ratio: f64,
    /// The same by processor time.
    busy: f64,
    aim: Aim,
}

impl Row {
    /// The cost of what we do as a multiple of the reference.
    pub fn new(name: impl Into<String>, ours: Cost, reference: Cost, aim: Aim) -> Self {
        Self {
            name: name.into(),
            ours,
            reference,
            ratio: ours.elapsed / reference.elapsed,
            busy: ours.busy / reference.busy,
            aim,
        }
    }

    /// How many times as fast as the reference we are.
    pub fn speed(name: impl Into<String>, ours: Cost, reference: Cost, aim: Aim) -> Self {
        Self {
            ratio: reference.elapsed / ours.elapsed,
            busy: reference.busy / ours.busy,
            ..Self::new(name, ours, reference, aim)
        }
    }

    fn is_met(&self) -> bool {
        match self.aim {
            Aim::AtMost(limit) => self.ratio <= limit,
            Aim::AtLeast(limit) => self.ratio >= limit,
        }
    }

    fn aim(&self) -> String {
        match self.aim {
            Aim::AtMost(limit) => format!("≤ {limit:.2}"),
            Aim::AtLeast(limit) => format!("≥ {limit:.2}"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "ratio": self.ratio,
            "busy_ratio": self.busy,
            "aim": self.aim(),
            "met": self.is_met(),
            "ours_s": self.ours.elapsed,
            "ours_busy_s": self.ours.busy,
            "reference_s": self.reference.elapsed,
            "reference_busy_s": self.reference.busy,
        })
    }
}

/// The table for people. `busy` is the ratio by processor time: on a machine that has other things to do it is the one to look at,
/// except for workers side by side, for which it says what sharing costs (one would be nothing).
pub fn print(rows: &[Row]) {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    println!(
        "{:width$}  {:>7}  {:>7}  {:>7}  {:>5}  {:>11}  {:>13}",
        "", "ratio", "(busy)", "aim", "", "ours, µs", "reference, µs"
    );
    for row in rows {
        println!(
            "{:width$}  {:>7.3}  {:>7.3}  {:>7}  {:>5}  {:>11.2}  {:>13.2}",
            row.name,
            row.ratio,
            row.busy,
            row.aim(),
            if row.is_met() { "ok" } else { "miss" },
            row.ours.elapsed * 1e6,
            row.reference.elapsed * 1e6,
        );
    }
}

/// The same for programs.
pub fn print_json(rows: &[Row]) {
    println!("{:#}", Value::Array(rows.iter().map(Row::json).collect()));
}
