//! Conversations made from a seed: scripts for the threads of the guest `scripted`, and the manners of the peers at the other end.
//!
//! What can come of one is unknown. It may end well, fail, or wait for ever; who speaks on which connection may depend on the schedule,
//! on what was said before, or on nothing. It must not depend on how the peers are dealt with.

use crate::random_program::Numbers;

/// Which side is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// What the program under test is given, and what its peers are given.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub role: Role,
    /// Connections that all threads may use.
    pub shared: usize,
    pub scripts: Vec<String>,
    pub manners: String,
    /// One for the server, or one for each client.
    pub seeds: Vec<usize>,
    /// At most so many requests of each client.
    pub requests: usize,
}

/// What a thread can do, with the visible operations that it costs.
const STEPS: [(&str, u32); 16] = [
    ("wab/;l", 2),
    ("wa|b/;l", 3),
    ("wab/;l", 2),
    ("wa/|b/;l", 3),
    ("vl", 4),
    ("Vl", 5),
    ("v", 3),
    ("el", 2),
    ("e", 1),
    ("r1", 1),
    ("r5", 1),
    ("d4", 1),
    ("p", 1),
    ("f", 1),
    ("+", 2),
    ("!", 0),
];

impl Conversation {
    /// `size` bounds the visible operations of each thread, about.
    pub fn new(seed: u64, role: Role, size: u32) -> Conversation {
        let mut numbers = Numbers::new(seed);
        let mut manners = String::new();
        let (always, sometimes) = match role {
            Role::Client => ("n", "gbsqxz"),
            Role::Server => ("", "gstfx"),
        };
        manners.push_str(always);
        manners.extend(sometimes.chars().filter(|_| numbers.below(3) == 0));
        let speaks_first = manners.contains('g');
        let shared = numbers.below(3);
        let script_of = |numbers: &mut Numbers| {
            let first_word = match (role, speaks_first) {
                (Role::Client, true) => "l",
                (Role::Server, true) => "wx/;",
                (_, false) => "",
            };
            script(numbers, role, shared, first_word, size)
        };
        let scripts = (0..2).map(|_| script_of(&mut numbers)).collect();
        let peers = match role {
            Role::Client => 1,
            Role::Server if manners.contains('t') => 1 + numbers.below(2),
            Role::Server => 2,
        };
        Conversation {
            role,
            shared,
            scripts,
            manners,
            seeds: (0..peers).map(|_| numbers.below(90_000)).collect(),
            requests: 1 + numbers.below(2),
        }
    }

    /// The arguments of `scripted`, after the place.
    pub fn arguments(&self) -> Vec<String> {
        let way = match self.role {
            Role::Client => "connect",
            Role::Server => "accept",
        };
        let mut arguments = vec![way.to_owned(), self.shared.to_string()];
        arguments.extend(self.scripts.iter().cloned());
        arguments
    }

    /// The arguments of each `scripted_peer`, after the place.
    pub fn peers(&self) -> Vec<String> {
        let peer = |seed: &usize| match self.role {
            Role::Client => format!("server '{}' {seed}", self.manners),
            Role::Server => format!("client '{}' {seed} {}", self.manners, self.requests),
        };
        self.seeds.iter().map(peer).collect()
    }
}

fn script(numbers: &mut Numbers, role: Role, shared: usize, first_word: &str, size: u32) -> String {
    let mut text = String::new();
    let mut has_own = false;
    let mut left = size;
    while left > 0 {
        let opens = !has_own && (shared == 0 || numbers.below(4) == 0);
        let closes = has_own && shared > 0 && numbers.below(6) == 0;
        if opens {
            text.push('o');
            text.push_str(first_word);
            has_own = true;
            left = left.saturating_sub(1);
        } else if closes {
            text.push_str("c0");
            has_own = false;
            left = left.saturating_sub(1);
        } else if numbers.below(3) == 0 {
            // On another connection from here on.
            let which = numbers.below(shared + usize::from(has_own));
            text.push_str(if which < shared { ["0", "1"][which] } else { "2" });
        }
        // Clients ask before they are answered.
        if role == Role::Server && numbers.below(2) == 0 {
            text.push('l');
            left = left.saturating_sub(1);
        }
        let (step, cost) = STEPS[numbers.below(STEPS.len())];
        text.push_str(step);
        left = left.saturating_sub(cost.max(1));
    }
    text
}
