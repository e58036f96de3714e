//! Which of several results a step has: the second half of a choice, as a number in traces and in the search.

use crate::signal_name;
use std::fmt;
use syscall_model::channels::ChannelId;
use syscall_model::faults::{Fault, Mishap, OnTheWay};

/// How a step goes on. The numbers are part of the trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// As it must.
    Plain,
    /// Not all that was on its way from peers has arrived, or not in the order of the command line: by the number of the way, see `arrivals.rs` of the session.
    Arrival(u32),
    /// A timed wait runs out before its time. With thread 0: the next timer fires.
    Timeout,
    /// The call goes wrong in this way.
    Fault(Fault),
    /// With thread 0: this signal comes from outside.
    Signal(i32),
    /// With thread 0: the process is killed from outside, as by `SIGKILL`.
    Kill,
    /// With thread 0: the power fails. What was not synced is there in this combination, see [`syscall_model::fs::durable`].
    Power(u32),
    /// With thread 0: this happens to a datagram on its way to the program.
    Mishap(OnTheWay),
    /// With thread 0: time passes before the next client comes.
    Later,
    /// With thread 0: nobody can move, and nothing comes from outside any more.
    Rest,
    /// The same where the program waits for what might have come.
    Await,
    /// With thread 0: threads go on for ever and come to no end, whatever the schedule. Only a search can know that.
    Endless,
}

const TIMEOUT: u32 = 1;
const FAULTS: u32 = 0x1000_0000;
const SIGNALS: u32 = 0x2000_0000;
const KILL: u32 = 0x3000_0000;
const POWER: u32 = 0x4000_0000;
const MISHAP: u32 = 0x5000_0000;
const LATER: u32 = 0x6000_0000;
const REST: u32 = 0x7000_0000;
const AWAITED: u32 = 1;
const ENDLESS: u32 = 0x8000_0000;
/// Bits for which datagram, and for which socket.
const DATAGRAMS: u32 = 10;
const SOCKETS: u32 = 16;
const KIND: u32 = 0xf000_0000;

/// No thread has this number: it stands for the environment.
pub const ENVIRONMENT: u32 = 0;

fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

impl Alternative {
    pub fn number(self) -> u32 {
        match self {
            Alternative::Plain => 0,
            Alternative::Timeout => TIMEOUT,
            Alternative::Arrival(way) => TIMEOUT + way,
            Alternative::Fault(fault) => {
                let place = Fault::ALL.iter().position(|known| *known == fault);
                FAULTS | place.unwrap_or(0) as u32
            }
            Alternative::Signal(number) => SIGNALS | number as u32,
            Alternative::Kill => KILL,
            Alternative::Power(combination) => POWER | combination,
            Alternative::Later => LATER,
            Alternative::Rest => REST,
            Alternative::Await => REST | AWAITED,
            Alternative::Endless => ENDLESS,
            Alternative::Mishap(what) => {
                let place = Mishap::ALL.iter().position(|known| *known == what.mishap);
                let (socket, datagram) = (
                    what.socket.0 & mask(SOCKETS),
                    what.number as u32 & mask(DATAGRAMS),
                );
                MISHAP | (place.unwrap_or(0) as u32) << (SOCKETS + DATAGRAMS) | socket << DATAGRAMS | datagram
            }
        }
    }

    /// `None` if there is no alternative with this number.
    pub fn of(number: u32) -> Option<Self> {
        let rest = number & !KIND;
        Some(match number & KIND {
            0 if rest == 0 => Alternative::Plain,
            0 if rest == TIMEOUT => Alternative::Timeout,
            0 => Alternative::Arrival(rest - TIMEOUT),
            FAULTS => Alternative::Fault(*Fault::ALL.get(rest as usize)?),
            SIGNALS if (1..=64).contains(&rest) => Alternative::Signal(rest as i32),
            KILL if rest == 0 => Alternative::Kill,
            LATER if rest == 0 => Alternative::Later,
            REST if rest == 0 => Alternative::Rest,
            REST if rest == AWAITED => Alternative::Await,
            ENDLESS if rest == 0 => Alternative::Endless,
            POWER => Alternative::Power(rest),
            MISHAP => Alternative::Mishap(OnTheWay {
                mishap: *Mishap::ALL.get((rest >> (SOCKETS + DATAGRAMS)) as usize)?,
                socket: ChannelId((rest >> DATAGRAMS) & mask(SOCKETS)),
                number: (rest & mask(DATAGRAMS)) as usize,
            }),
            _ => return None,
        })
    }

    /// Does the environment do what it need not?
    pub fn is_fault(number: u32) -> bool {
        !matches!(
            Self::of(number),
            None | Some(Alternative::Plain | Alternative::Rest | Alternative::Await | Alternative::Endless)
        ) && !Self::is_late(number)
    }

    /// Does something come later than it could?
    pub fn is_late(number: u32) -> bool {
        matches!(
            Self::of(number),
            Some(Alternative::Arrival(_) | Alternative::Later)
        )
    }
}

/// For a line of a trace; empty for what is as it must be.
impl fmt::Display for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // What had arrived is said below the line.
            Alternative::Plain
            | Alternative::Arrival(_)
            | Alternative::Later
            | Alternative::Rest
            | Alternative::Await
            | Alternative::Endless => Ok(()),
            Alternative::Timeout => write!(f, "timed out early"),
            Alternative::Fault(fault) => write!(f, "{}", fault.words()),
            Alternative::Signal(number) => write!(f, "{} from outside", signal_name(*number)),
            Alternative::Kill => write!(f, "killed from outside"),
            Alternative::Power(_) => write!(f, "the power fails"),
            Alternative::Mishap(what) => write!(f, "{}", what.mishap.words()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_what_they_were_made_of() {
        let faults = Fault::ALL.map(Alternative::Fault);
        let others = [
            Alternative::Plain,
            Alternative::Timeout,
            Alternative::Arrival(3),
            Alternative::Signal(15),
            Alternative::Kill,
            Alternative::Power(7),
            Alternative::Later,
            Alternative::Rest,
            Alternative::Await,
            Alternative::Endless,
        ];
        let mishaps = Mishap::ALL.map(|mishap| {
            Alternative::Mishap(OnTheWay {
                mishap,
                socket: ChannelId(12),
                number: 3,
            })
        });
        for alternative in faults.into_iter().chain(others).chain(mishaps) {
            assert_eq!(Alternative::of(alternative.number()), Some(alternative));
        }
        assert_eq!(Alternative::of(SIGNALS), None);
        assert_eq!(Alternative::of(u32::MAX), None);
    }
}
